import { readFileSync } from 'node:fs'

interface Manifest {
  readonly version: string
  readonly engines: { readonly node: string }
}

/** In the package's root, which is two levels up from both src/cli and dist/cli. */
export function readManifest(): Manifest {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest
}
