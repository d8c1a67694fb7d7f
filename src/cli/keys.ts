import { databaseVariables, readPort } from '../config.ts'
import type { PostgresDatabase } from '../db/postgres.ts'
import { allows, defineKey, type Scope } from '../domain/api-key.ts'
import { type ApiKey, createKey, listKeys, revokeKey } from '../keys/api-keys.ts'
import { asTyped, badOption, namingOptions, readArguments, required } from './arguments.ts'
import { actor, alignColumns, type Command, type Out } from './command.ts'

const help = `posthorn keys create --name <name> --scopes <scopes> [--rate <per second>] [--expires <time>]
posthorn keys list [--json]
posthorn keys revoke <id>

Creates, lists and revokes API keys. Without any key the server answers its own machine only; from the first key on every
call needs one.

  --name <name>        what the key is for; two keys may have the same
  --scopes <scopes>    one or more of publish, consume, read, manage, admin, separated by commas
  --rate <per second>  how many requests per second it may make (10000)
  --expires <time>     when it ends, such as 2027-01-01T00:00:00Z (never)
  --json               the list as JSON
  <id>                 the key's id, or the key itself

Environment: DATABASE_URL or POSTHORN_DATA_DIR, and POSTHORN_SCHEMA, as for posthorn serve, which may be running meanwhile.

  posthorn keys create --name billing --scopes publish,read --rate 100`

export const keys: Command = {
  help,
  async run(args, out) {
    const action = readKeysAction(args)
    const { withSchema } = await import('./with-database.ts')
    const by = { actor: actor(), url: `http://localhost:${readPort()}` }
    const embedded = action.name === 'create' ? 'any' : 'existing'
    await withSchema({ embedded }, (db) => action.run(db, out, by))
    return 0
  },
}

/** What to do, checked before a database is opened for it. */
interface KeysAction {
  readonly name: 'create' | 'list' | 'revoke'
  run(db: PostgresDatabase, out: Out, by: KeysCaller): Promise<void>
}

interface KeysCaller {
  /** For the admin log. */
  readonly actor: string
  /** The server's address, for the example call that is shown with a new key. */
  readonly url: string
}

/** Takes the arguments after `posthorn keys`. */
export function readKeysAction(args: readonly string[]): KeysAction {
  const [command, ...rest] = args
  if (command === 'create') return create(rest)
  if (command === 'list') return list(rest)
  if (command === 'revoke') return revoke(rest)
  throw badOption('keys', 'followed by create, list or revoke', command)
}

function create(args: readonly string[]): KeysAction {
  const known = { name: 'string', scopes: 'string', rate: 'string', expires: 'string' } as const
  const { options } = readArguments(args, { known, variables: databaseVariables })
  const request = {
    name: required('--name', options.name),
    scopes: required('--scopes', options.scopes)
      .split(',')
      .map((scope) => scope.trim()),
    ratePerSecond: options.rate === undefined ? null : parseRate(options.rate),
    expiresAt: options.expires === undefined ? null : parseTime(options.expires),
  }
  // All but whether the time is past, which only the database's clock can say.
  namingOptions(typedNames, () => defineKey(request))
  const run: KeysAction['run'] = async (db, out, { actor, url }) => {
    const key = await createKey(db, { ...request, actor }).catch((error: unknown) => {
      throw asTyped(error, typedNames)
    })
    out(`Created the key ${key.id} (${key.name}). It is shown only now; the database keeps its hash:`)
    const example = curlLine(key.scopes, url)
    for (const line of ['', key.text, '', 'Set POSTHORN_KEY to it, and try:', '', example]) out(line)
  }
  return { name: 'create', run }
}

function list(args: readonly string[]): KeysAction {
  const { options } = readArguments(args, { known: { json: 'boolean' }, variables: databaseVariables })
  const run: KeysAction['run'] = async (db, out) => {
    const found = await listKeys(db)
    if (options.json !== undefined) return out(JSON.stringify(found.map(toJson), null, 2))
    if (found.length === 0)
      return out('There are no keys. Make one: posthorn keys create --name … --scopes …')
    for (const line of alignColumns([columnNames, ...found.map(toCells)])) out(line)
  }
  return { name: 'list', run }
}

function revoke(args: readonly string[]): KeysAction {
  const { positionals } = readArguments(args, { places: ['<id>'], variables: databaseVariables })
  const given = required('<id>', positionals[0])
  // Somebody who has found a leaked key pastes all of it, or what is left of it.
  const id = /^ph_([a-z0-9]{12})(_|$)/.exec(given)?.[1] ?? given
  const run: KeysAction['run'] = async (db, out, { actor }) => {
    const key = await revokeKey(db, { id, actor })
    out(`The key ${key.id} (${key.name}) is revoked since ${time(key.revokedAt)}, on every node within 5 s.`)
  }
  return { name: 'revoke', run }
}

function parseRate(text: string): number {
  const rate = Number(text)
  if (text.trim() === '' || !Number.isFinite(rate))
    throw badOption('--rate', 'a number of requests per second', text)
  return rate
}

const isoTime = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/

function parseTime(text: string): Date {
  const date = new Date(isoTime.test(text) ? text : Number.NaN)
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  // `new Date` turns February 30 into March 2.
  const isReal = !Number.isNaN(date.getTime()) && day.toISOString().startsWith(text.slice(0, 10))
  if (!isReal) throw badOption('--expires', 'a time like 2027-01-01T00:00:00Z', text)
  return date
}

const typedNames: Readonly<Record<string, string>> = {
  name: '--name',
  scopes: '--scopes',
  ratePerSecond: '--rate',
  expiresAt: '--expires',
}

/** One call that this key may make. The call does not show the key: shells and process lists show what was typed. */
function curlLine(scopes: readonly Scope[], base: string): string {
  const curl = 'curl -H "Authorization: Bearer $POSTHORN_KEY"'
  if (allows(scopes, 'publish')) {
    return `${curl} -H 'Content-Type: application/json' -d '{"type":"hello","payload":"world"}' ${base}/events`
  }
  if (allows(scopes, 'consume')) return `${curl} '${base}/events/subscribe?tags=hello&worker_id=me'`
  return `${curl} ${base}/${allows(scopes, 'read') ? 'events' : 'subscribers'}`
}

const columnNames = ['ID', 'NAME', 'SCOPES', 'RATE/S', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED']

function toCells(key: ApiKey): string[] {
  return [
    key.id,
    key.name,
    key.scopes.join(','),
    key.ratePerSecond === null ? '-' : String(key.ratePerSecond),
    key.state,
    time(key.createdAt),
    time(key.expiresAt),
    time(key.lastUsedAt),
  ]
}

function time(date: Date | null): string {
  return date === null ? '-' : date.toISOString()
}

function toJson(key: ApiKey): object {
  return {
    id: key.id,
    name: key.name,
    scopes: key.scopes,
    rate_per_second: key.ratePerSecond,
    state: key.state,
    created_at: key.createdAt,
    created_by: key.createdBy,
    expires_at: key.expiresAt,
    revoked_at: key.revokedAt,
    revoked_by: key.revokedBy,
    last_used_at: key.lastUsedAt,
  }
}
