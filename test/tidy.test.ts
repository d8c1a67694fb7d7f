import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { errorCodes, errorTable } from '../src/errors.ts'
import { metricTable } from '../src/observe/metrics.ts'
import {
  exists,
  exportsOf,
  filesBelow,
  functionsOf,
  importsOf,
  lines,
  page,
  patchedStatements,
  ringsOf,
  root,
  withoutComments,
} from './support/sources.ts'

const sources = filesBelow('src', '.ts')
const documents = [
  ...filesBelow('docs', '.md'),
  ...readdirSync(root)
    .filter((name) => name.endsWith('.md'))
    .map(page),
]

/** Who may import whom. `errors` is open to everyone; a file at the top of src has a wall of its own. */
const walls: Record<string, readonly string[]> = {
  errors: [],
  domain: [],
  db: [],
  // What every feature has: database, log, metrics, signals between the parts of a process.
  core: ['domain', 'db', 'observe'],
  consume: ['domain'],
  engine: ['core', 'domain', 'db'],
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
/** The guide adds this file. */
const example = 'test/subscriptions/note.test.ts'
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

  test('domain and consume import nothing of Node, so that they run anywhere', () => {
    // Still to be given what they need from outside.
    const toDo = ['src/consume/settler.ts', 'src/domain/api-key.ts', 'src/domain/id.ts']
    const found = sources
      .filter(({ path, text }) => /^src\/(domain|consume)\//.test(path) && /from 'node:/.test(text))
      .map(({ path }) => path)
    expect(found.sort()).toEqual(toDo)
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
        'src/memory/memory-queue.ts',
        'src/memory/waiting.ts',
      ],
    ]
    expect(ringsOf(sources)).toEqual(known)
  })

  test('files stay short: over 300 lines needs a reason', () => {
    const reasons = new Map<string, string>()
    const long = sources.filter(({ path, text }) => lines(text) > 300 && !reasons.has(path))
    expect(long.map(({ path, text }) => `${path}: ${lines(text)}`)).toEqual([])
  })

  test('functions fit a screen: over 50 lines needs a reason', () => {
    const reasons = new Map([
      ['src/services.ts createServices', 'the list of all services'],
      ['src/http/server.ts createServer', 'the hooks of the server, in the order in which they run'],
      ['src/observe/observers.ts observeUpkeep', 'a list of hooks'],
    ])
    const long = sources.flatMap(({ path, text }) =>
      functionsOf(text)
        .filter((each) => each.lines > 50)
        .map(({ name }) => `${path} ${name}`)
        // A table of routes.
        .filter((name) => !/^src\/http\/routes\/\S+ \w+Routes$/.test(name)),
    )
    expect(long.sort()).toEqual([...reasons.keys()].sort())
  })

  test('no object is spread where its fields could stand: `...{ a, b }`', () => {
    const found = sources.filter(({ text }) => text.includes('...{')).map(({ path }) => path)
    expect(found).toEqual([])
  })

  test('a statement is one text that can be pasted into psql, not put together from parts', () => {
    // Still put together. Take a file off the list when it is done; a reason that is to stay stands beside it.
    const toDo = new Map([
      ['src/deliveries/dead-letters.ts', 'to do'],
      ['src/events/event-log.ts', 'to do'],
      ['src/events/event-type.ts', 'to do'],
      ['src/keys/api-keys.ts', 'to do'],
      ['src/pull/find-leases.ts', 'to do'],
      ['src/retention/audit-statements.ts', 'five tables are pruned by one shape of statement'],
    ])
    const found = sources.filter(({ text }) => patchedStatements(text) > 0).map(({ path }) => path)
    expect(found.sort()).toEqual([...toDo.keys()].sort())
  })

  test('no two files have one name, unless they are the same idea', () => {
    // A command has the name of the feature that it calls.
    const commands = [...page('src/cli/main.ts').text.matchAll(/^ {2}(\w+): async \(\) =>/gm)]
    const ofCommands = commands.map((match) => `src/cli/${match[1]}.ts`)
    const named = sources.filter(({ path }) => !ofCommands.includes(path))
    const reasons = new Map([['index.ts', 'what a package exports']])
    const names = named.map(({ path }) => basename(path))
    const twice = new Set(names.filter((name, at) => names.indexOf(name) !== at))
    expect([...twice].sort()).toEqual([...reasons.keys()].sort())
  })

  test('everything that is exported is used by another file', () => {
    const toDo = [
      'src/client/translate.ts fromWire',
      'src/consume/settler.ts Settler',
      'src/deliveries/repair-dead-letters.ts openOne',
    ]
    const callers = [
      ...sources,
      ...['test', 'scripts', 'bench', 'chaos'].flatMap((name) => filesBelow(name, '')),
    ].filter(({ path }) => path !== 'test/tidy.test.ts')
    const words = callers.map(({ path, text }) => ({ path, words: new Set(text.match(/\w+/g)) }))
    const unused = sources.flatMap(({ path, text }) =>
      exportsOf(text)
        .filter((name) => !words.some((other) => other.path !== path && other.words.has(name)))
        .map((name) => `${path} ${name}`),
    )
    expect(unused.sort()).toEqual(toDo.sort())
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

  test('every file that the documents for contributors name exists', () => {
    const named = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'STYLE.md', 'docs/guides/add-a-feature.md']
    const missing = named.map(page).flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:src|test|migrations|scripts|docs|chaos|bench)\/[\w./-]+\.\w+)`/g)]
        .map((match) => match[1] as string)
        .filter((file) => !exists(join(root, file)) && file !== example)
        .map((file) => `${path}: ${file}`),
    )
    expect(missing).toEqual([])
  })

  test('every function and field that the guide for a first feature names exists', () => {
    const guide = page('docs/guides/add-a-feature.md').text.replace(/^ *```[\s\S]*?^ *```/gm, '')
    const code = [...sources, ...filesBelow('test', '.ts')].filter(({ path }) => path !== 'test/tidy.test.ts')
    const words = new Set(code.flatMap(({ text }) => text.match(/\w+/g) ?? []))
    const named = [...guide.matchAll(/`([a-zA-Z]+[A-Z]\w*)`/g)].map((match) => match[1] as string)
    // The guide adds this constant.
    expect(named.filter((name) => !words.has(name) && name !== 'noteCharsMax')).toEqual([])
  })

  test('no walk of ARCHITECTURE.md passes a file twice', () => {
    const walks =
      page('ARCHITECTURE.md')
        .text.split(/^## /m)
        .find((section) => section.startsWith('Walks')) ?? ''
    const twice = walks.split(/^### /m).flatMap((walk) => {
      const files = [...walk.matchAll(/^\d+\. `([^`]+)`/gm)].map((match) => match[1])
      return files
        .filter((file, at) => files.indexOf(file) !== at)
        .map((file) => `${walk.split('\n')[0]}: ${file}`)
    })
    expect(twice).toEqual([])
  })

  test('every command is documented, and none is stale', () => {
    const commands = page('src/cli/main.ts').text.matchAll(/^ {2}(\w+): async \(\) =>/gm)
    const documented = page('docs/reference/cli.md').text.matchAll(/^## posthorn (\w+)/gm)
    const names = (matches: Iterable<RegExpMatchArray>) => [...matches].map((match) => match[1])
    expect(names(documented)).toEqual(names(commands))
  })

  test('texts name nothing that a reader of the repository cannot see', () => {
    const hidden = [...sources, ...filesBelow('migrations', '.sql'), ...documents]
      .filter(({ text }) => /\bSPEC\b|\b[Ss]eed 00\d|\bof the seeds\b/.test(text))
      .map(({ path }) => path)
    expect(hidden).toEqual([])
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
    const broken = documents.flatMap(({ path, text }) =>
      [...text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)]
        .map((match) => match[1] as string)
        .filter((target) => !exists(join(root, path, '..', target)))
        .map((target) => `${path}: ${target}`),
    )
    expect(broken).toEqual([])
  })
})

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
