import { readFileSync } from 'node:fs'

export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** They sign themselves, for localhost, hooks.localhost and 127.0.0.1. Node can check certificates but not make them. */
export const certificates = { valid: read('valid'), expired: read('expired') }

function read(name: string): Certificate {
  const fileOf = (file: string) => readFileSync(new URL(`certificates/${file}.pem`, import.meta.url), 'utf8')
  return { key: fileOf('key'), cert: fileOf(name) }
}
