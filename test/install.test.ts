import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Package {
  readonly dev?: boolean
  readonly devOptional?: boolean
  readonly resolved?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly engines?: { readonly node?: string }
}

const read = (file: string) => JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8'))
const packages: Record<string, Package> = read('package-lock.json').packages
const names = Object.keys(packages).filter((path) => path !== '')

test('npm ci works on every platform: the lock file has the packages of all of them', () => {
  const missing = names.flatMap((path) =>
    Object.keys(packages[path]?.optionalDependencies ?? {}).filter((name) => !isFound(path, name)),
  )
  expect(missing).toEqual([])
})

test('the lock file names no registry', () => {
  expect(names.filter((path) => packages[path]?.resolved !== undefined)).toEqual([])
})

test('whoever installs the package gets what we test with: nothing that runs there is overridden', () => {
  const overridden = Object.keys(read('package.json').overrides ?? {})
  const atRuntime = names.filter((path) => overridden.includes(nameOf(path)) && !isForDevelopment(path))
  expect(atRuntime).toEqual([])
})

test('no runtime dependency warns on Node 20', () => {
  const newer = names.filter((path) => !isForDevelopment(path) && !runsOn20(packages[path]?.engines?.node))
  expect(newer).toEqual([])
})

/** As Node looks for it: in the package itself, then in every folder above. */
function isFound(path: string, name: string): boolean {
  if (`${path === '' ? '' : `${path}/`}node_modules/${name}` in packages) return true
  return path !== '' && isFound(path.slice(0, Math.max(0, path.lastIndexOf('node_modules/') - 1)), name)
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

function isForDevelopment(path: string): boolean {
  return packages[path]?.dev === true || packages[path]?.devOptional === true
}

/** One of the alternatives begins at 20 or below and does not end below it. */
function runsOn20(range = '*'): boolean {
  return range.split('||').some((alternative) => {
    const [, sign = '', major] = /^\s*(\^|~|>=|>)?\s*v?(\d+)?/.exec(alternative) ?? []
    if (major === undefined) return true
    const isOpen = sign === '>=' || sign === '>'
    return isOpen ? Number(major) <= 20 : Number(major) === 20
  })
}
