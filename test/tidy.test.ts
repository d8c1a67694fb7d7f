import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { errorCodes, errorTable } from '../src/errors.ts'
import { metricTable } from '../src/observe/metrics.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const sources = filesBelow('src', '.ts')

/** Who may import whom. `errors` is open to everyone; a file at the top of src has a wall of its own. */
const walls: Record<string, readonly string[]> = {
  errors: [],
  domain: [],
  db: [],
  // What every feature has: database, log, metrics, signals between the parts of a process.
  core: ['domain', 'db', 'observe'],
  consume: ['domain'],
  engine: ['core', 'domain', 'db', 'deliveries'],
  subscriptions: ['core', 'engine', 'domain', 'db', 'webhooks/send'],
  events: ['core', 'engine', 'domain', 'db'],
  deliveries: ['core', 'engine', 'events', 'subscriptions', 'domain', 'db', 'observe'],
  queues: ['core', 'engine', 'subscriptions', 'memory', 'domain', 'db'],
  memory: ['core', 'engine', 'consume', 'queues', 'domain', 'db', 'observe'],
  retention: ['core', 'events', 'keys', 'domain', 'db', 'observe'],
  keys: ['core', 'domain', 'db'],
  workers: ['core', 'engine', 'subscriptions', 'domain', 'db'],
  handlers: [
    'core',
    'engine',
    'consume',
    'memory',
    'queues',
    'subscriptions',
    'webhooks/send',
    'domain',
    'db',
    'observe',
  ],
  pull: ['core', 'engine', 'subscriptions', 'workers', 'domain', 'db', 'observe'],
  upkeep: ['core', 'engine', 'deliveries', 'queues', 'subscriptions', 'domain', 'db', 'observe'],
  observe: [
    'core',
    'consume',
    'memory',
    'pull',
    'retention',
    'upkeep',
    'webhooks/send',
    'workers',
    'domain',
    'db',
  ],
  webhooks: ['webhooks/receive'],
  'webhooks/receive': ['domain'],
  'webhooks/send': [
    'core',
    'engine',
    'consume',
    'subscriptions',
    'webhooks/receive',
    'cloudevents',
    'domain',
    'db',
  ],
  cloudevents: ['domain'],
  adapters: ['domain', 'db'],
  client: ['domain', 'consume'],
  http: ['cloudevents', 'hub', 'domain', 'observe'],
  options: ['domain', 'webhooks/send', 'observe', 'db'],
  config: ['options', 'domain'],
  hub: ['*'],
  services: ['*'],
  create: ['*'],
  posthorn: ['*'],
  index: ['*'],
  testing: ['*'],
  cli: ['*'],
}
const mayImportPosthorn = ['create', 'index', 'cli', 'testing']

describe('the house is tidy', () => {
  test('each folder imports only the folders it may', () => {
    const trespasses = sources.flatMap(({ path, text }) =>
      importsOf(path, text)
        .filter((imported) => !allowed(wallOf(path), wallOf(imported)))
        .map((imported) => `${path} imports ${imported}`),
    )
    expect(trespasses).toEqual([])
  })

  test('nothing but the entry points imports posthorn.ts', () => {
    const trespasses = sources
      .filter(({ path, text }) => importsOf(path, text).includes('src/posthorn.ts'))
      .filter(({ path }) => !mayImportPosthorn.includes(wallOf(path)))
    expect(trespasses.map(({ path }) => path)).toEqual([])
  })

  test('every folder that exists is in the table, and none is stale', () => {
    const found = new Set(sources.map(({ path }) => wallOf(path)))
    expect(Object.keys(walls).sort()).toEqual([...found].sort())
  })

  test('no files import each other in a ring, types included', () => {
    const known = [
      // An attempt has its share, and a share makes attempts.
      ['src/consume/attempt.ts', 'src/consume/share.ts'],
      // A queue, its lanes and its entries are one structure in five files.
      [
        'src/memory/adoption.ts',
        'src/memory/entry.ts',
        'src/memory/ledger.ts',
        'src/memory/queue.ts',
        'src/memory/waiting.ts',
      ],
    ]
    expect(ringsOf(sources)).toEqual(known)
  })

  test('files stay short: over 300 lines needs a reason', () => {
    const reasons = new Map([
      ['src/consume/runner.ts', 'the one loop behind every way to consume'],
      ['src/services.ts', 'the one list of all services, in the order in which they need each other'],
    ])
    const long = sources.filter(({ path, text }) => lines(text) > 300 && !reasons.has(path))
    expect(long.map(({ path, text }) => `${path}: ${lines(text)}`)).toEqual([])
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

  test('every error code and metric is documented, and none is stale', () => {
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
  })

  test('the reference of errors has the status and the message of each', () => {
    const written = readFileSync(join(root, 'docs/reference/errors.md'), 'utf8')
    const rows = errorCodes.map(
      (code) => `| \`${code}\` | ${errorTable[code].status} | ${errorTable[code].message} |`,
    )
    expect(rows.filter((row) => !written.includes(row))).toEqual([])
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

/** The files that reach each other by imports, each ring sorted. */
function ringsOf(files: readonly SourceFile[]): string[][] {
  const imports = new Map(files.map(({ path, text }) => [path, importsOf(path, text)]))
  const reached = new Map([...imports.keys()].map((path) => [path, reachableFrom(path, imports)]))
  const ringOf = (path: string) =>
    [...(reached.get(path) ?? [])].filter((other) => reached.get(other)?.has(path)).sort()
  const rings = [...reached.keys()].filter((path) => reached.get(path)?.has(path)).map(ringOf)
  return [...new Map(rings.map((ring) => [ring.join(), ring])).values()].sort()
}

function reachableFrom(start: string, imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const reached = new Set<string>()
  const waiting = [...(imports.get(start) ?? [])]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    waiting.push(...(imports.get(path) ?? []))
  }
  return reached
}

/** `src/domain/event.ts` is in domain, `src/hub.ts` in hub, `src/webhooks/send/vault.ts` in webhooks/send. */
function wallOf(path: string): string {
  const [, folder, inner, ...rest] = path.split('/') as [string, string, ...string[]]
  if (folder === 'webhooks' && rest.length > 0) return `${folder}/${inner}`
  return folder.replace(/\.ts$/, '')
}

function allowed(from: string, to: string): boolean {
  if (to === 'errors' || from === to) return true
  const may = walls[from] ?? []
  return may.includes('*') || may.includes(to)
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
}

function lines(text: string): number {
  return text.trimEnd().split('\n').length
}
