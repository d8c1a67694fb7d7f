import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { optionNames, serverVariables } from '../src/config.ts'
import { errorCodes } from '../src/errors.ts'
import { metricTable } from '../src/observe/metrics.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const sources = filesBelow('src', '.ts')

/** Who may import whom. `errors` is open to everyone; a file at the top of src is a ring of its own. */
const rings: Record<string, readonly string[]> = {
  errors: [],
  domain: ['domain'],
  db: ['db'],
  operations: ['operations', 'domain', 'db'],
  consume: ['consume', 'domain'],
  client: ['client', 'domain', 'consume'],
  observe: ['observe', 'domain'],
  cloudevents: ['cloudevents', 'domain'],
  webhooks: ['webhooks', 'domain'],
  dispatch: ['dispatch', 'webhooks', 'cloudevents', 'consume', 'domain'],
  upkeep: ['upkeep', 'operations', 'domain', 'db'],
  adapters: ['adapters', 'domain', 'db'],
  portions: [],
  batcher: ['portions'],
  config: ['domain', 'dispatch', 'observe', 'db'],
  publish: ['publish', 'batcher', 'portions', 'operations', 'domain', 'db'],
  'lease-source': ['batcher', 'operations', 'domain', 'db', 'consume', 'sorted-out'],
  'sorted-out': ['consume', 'domain'],
  directory: ['operations', 'domain', 'db'],
  pull: ['pull', 'portions', 'operations', 'upkeep', 'domain', 'db', 'directory', 'lease-source', 'observe'],
  push: ['push', 'dispatch', 'webhooks', 'consume', 'operations', 'upkeep', 'domain', 'db', 'directory'],
  memory: ['memory', 'batcher', 'stop-each', 'operations', 'domain', 'db', 'consume', 'observe'],
  roster: ['push', 'memory', 'consume', 'operations', 'domain', 'db', 'observe', 'portions'],
  refresher: [],
  readiness: ['domain'],
  repair: ['repair', 'operations', 'domain', 'db', 'observe'],
  'key-ring': ['batcher', 'operations', 'domain', 'db'],
  replays: ['directory', 'operations', 'domain', 'db'],
  retention: ['retention', 'operations', 'domain', 'db'],
  hub: [
    'publish',
    'memory',
    'pull',
    'push',
    'repair',
    'readiness',
    'directory',
    'queues',
    'replays',
    'retention',
    'operations',
    'domain',
    'db',
    'observe',
  ],
  http: ['http', 'cloudevents', 'hub', 'domain', 'observe'],
  published: ['domain', 'observe', 'operations'],
  queues: ['directory', 'memory', 'domain', 'operations', 'db'],
  'stop-each': ['observe'],
  notices: ['db'],
  observers: ['pull', 'push', 'memory', 'retention', 'consume', 'domain', 'hub', 'observe', 'upkeep'],
  'observe-retention': ['retention', 'observe'],
  parts: ['config', 'db', 'dispatch', 'domain', 'observe'],
  create: ['*'],
  posthorn: ['*'],
  index: ['*'],
  testing: ['*'],
  cli: ['*'],
}
const mayImportPosthorn = ['create', 'index', 'cli', 'testing']

describe('the house is tidy', () => {
  test('each ring imports only the rings it may', () => {
    const trespasses = sources.flatMap(({ path, text }) =>
      importsOf(path, text)
        .filter((imported) => !allowed(ringOf(path), ringOf(imported)))
        .map((imported) => `${path} imports ${imported}`),
    )
    expect(trespasses).toEqual([])
  })

  test('nothing but the entry points imports posthorn.ts', () => {
    const trespasses = sources
      .filter(({ path, text }) => importsOf(path, text).includes('src/posthorn.ts'))
      .filter(({ path }) => !mayImportPosthorn.includes(ringOf(path)))
    expect(trespasses.map(({ path }) => path)).toEqual([])
  })

  test('every ring that exists is in the table, and none is stale', () => {
    const found = new Set(sources.map(({ path }) => ringOf(path)))
    expect(Object.keys(rings).sort()).toEqual([...found].sort())
  })

  test('files stay short: over 300 lines needs a reason', () => {
    const reasons = new Map([
      ['src/consume/runner.ts', 'the one loop behind every way to consume'],
      ['src/posthorn.ts', 'where all services are put together'],
      ['src/hub.ts', 'all that a user can ask for, in a few lines each'],
    ])
    const long = sources.filter(({ path, text }) => lines(text) > 300 && !reasons.has(path))
    expect(long.map(({ path, text }) => `${path}: ${lines(text)}`)).toEqual([])
  })

  test('SQL lives only in operations and db', () => {
    const sql = /`[^`]*\b(select|insert into|update|delete from)\b[^`]*\b(from|set|values|where)\b[^`]*`/i
    const strays = sources.filter(({ path, text }) => !/^src\/(operations|db)\//.test(path) && sql.test(text))
    expect(strays.map(({ path }) => path)).toEqual([])
  })

  test('no clock is read but the database’s, except to measure how long something took', () => {
    const strays = sources.filter(({ text }) => /\bDate\.now\(|new Date\(\)/.test(text))
    expect(strays.map(({ path }) => path)).toEqual([])
  })

  test('no empty catch, no any, no default export, no forbidden synonym in a file name', () => {
    const rules: [string, RegExp][] = [
      ['empty catch', /catch\s*(\([^)]*\))?\s*\{\s*\}/],
      ['any', /:\s*any\b|as any\b|<any>/],
      ['default export', /^export default/m],
    ]
    const found = sources.flatMap(({ path, text }) =>
      rules.filter(([, pattern]) => pattern.test(withoutComments(text))).map(([rule]) => `${path}: ${rule}`),
    )
    const names = sources.filter(({ path }) =>
      /\b(manager|service|helper|util|types|job|message)\b/.test(path),
    )
    expect([...found, ...names.map(({ path }) => `${path}: name`)]).toEqual([])
  })

  test('every error code, metric and option is documented, and none is stale', () => {
    const documented = (file: string) =>
      [...readFileSync(join(root, 'docs/reference', file), 'utf8').matchAll(/^\| `([^`]+)`/gm)].map(
        (match) => match[1],
      )
    expect(documented('errors.md').sort()).toEqual([...errorCodes].sort())
    expect(documented('metrics.md').sort()).toEqual(
      Object.values(metricTable)
        .map(({ name }) => name)
        .sort(),
    )
    expect(documented('options.md').sort()).toEqual([...optionNames, ...serverVariables].sort())
  })

  test('every runtime dependency is justified', () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const contributing = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
    const missing = Object.keys(dependencies).filter((name) => !contributing.includes(`| \`${name}\``))
    expect(missing).toEqual([])
  })

  test('no file names a registry', () => {
    const files = ['src', 'test', 'docs', 'examples', 'bench', 'chaos', 'migrations', 'scripts']
      .flatMap((folder) => filesBelow(folder, ''))
      .filter(({ path }) => path !== 'test/tidy.test.ts' && !path.endsWith('package-lock.json'))
    const strays = files.filter(({ text }) => /https?:\/\/registry\./.test(text))
    expect(strays.map(({ path }) => path)).toEqual([])
  })

  test('the example of the README is the one that runs', () => {
    const [, ...code] = readFileSync(join(root, 'examples/handler.js'), 'utf8').trimEnd().split('\n')
    expect(readFileSync(join(root, 'README.md'), 'utf8')).toContain(code.join('\n'))
  })

  test('relative links in the docs lead somewhere', () => {
    const pages = [
      ...filesBelow('docs', '.md'),
      ...readdirSync(root)
        .filter((name) => name.endsWith('.md'))
        .map(page),
    ]
    const broken = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] as string)
        .filter((target) => !exists(join(root, path, '..', target)))
        .map((target) => `${path}: ${target}`),
    )
    expect(broken).toEqual([])
  })
})

interface SourceFile {
  readonly path: string
  readonly text: string
}

function page(name: string): SourceFile {
  return { path: name, text: readFileSync(join(root, name), 'utf8') }
}

function filesBelow(folder: string, ending: string): SourceFile[] {
  const full = join(root, folder)
  if (!exists(full)) return []
  return readdirSync(full, { recursive: true, encoding: 'utf8' })
    .map((name) => join(full, name))
    .filter((path) => path.endsWith(ending) && !path.includes('node_modules') && statSync(path).isFile())
    .map((path) => page(relative(root, path)))
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

function importsOf(path: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map((match) =>
    join(path, '..', match[1] as string),
  )
}

/** `src/domain/event.ts` is in domain, `src/hub.ts` in hub, `src/db/embedded/lock.ts` in db. */
function ringOf(path: string): string {
  return (path.split('/')[1] as string).replace(/\.ts$/, '')
}

function allowed(from: string, to: string): boolean {
  if (to === 'errors' || from === to) return true
  const may = rings[from] ?? []
  return may.includes('*') || may.includes(to)
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
}

function lines(text: string): number {
  return text.trimEnd().split('\n').length
}
