import { badOption } from '../core/paging.ts'
import { type Database, defineStatement } from '../db/database.ts'
import {
  defineKey,
  hashSecret,
  isKeyId,
  type KeyDefinition,
  type KeyOptions,
  newKey,
  type Scope,
} from '../domain/api-key.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { recordAction } from './admin-log.ts'

export type KeyState = 'active' | 'expired' | 'revoked'

/** A key as lists show it: nothing in it lets anybody in. */
export interface ApiKey extends KeyDefinition {
  readonly id: string
  readonly state: KeyState
  readonly createdAt: Date
  readonly createdBy: string
  readonly revokedAt: Date | null
  readonly revokedBy: string | null
  /** To within ten seconds. */
  readonly lastUsedAt: Date | null
}

export interface CreatedKey extends ApiKey {
  /** The key itself. This is the only time anybody sees it. */
  readonly text: string
}

/** What it takes to judge a call. */
export interface StoredKey {
  readonly id: string
  readonly name: string
  readonly hash: Buffer
  readonly scopes: readonly Scope[]
  readonly ratePerSecond: number | null
  readonly state: KeyState
}

/** Who does it, and from where: for the admin log. */
export interface ActedBy {
  readonly actor: string
  readonly remote?: string | null
}

export async function createKey(db: Database, request: KeyOptions & ActedBy): Promise<CreatedKey> {
  const { actor, remote = null } = request
  const { name, scopes, ratePerSecond, expiresAt } = defineKey(request)
  const { id, secret, text } = newKey()
  const expiry = expiresAt?.toISOString() ?? null
  return db.transaction(async (tx) => {
    const values = [id, name, hashSecret(secret), scopes, ratePerSecond, actor, expiry]
    const created = await tx.run(createStatement(db), values)
    if (created.length === 0) throw badOption('expiresAt', 'in the future', expiresAt)
    const details = { name, scopes, rate_per_second: ratePerSecond, expires_at: expiry }
    await recordAction(db, { actor, action: 'key.create', target: id, details, remote }, tx)
    const [row] = await tx.run<KeyRow>(readStatement(db), [id])
    return { ...fromRow(row as KeyRow), text }
  })
}

/** For good, on every node within five seconds. Revoking again changes nothing. */
export async function revokeKey(db: Database, request: { readonly id: string } & ActedBy): Promise<ApiKey> {
  const { id, actor, remote = null } = request
  const unknown = new PosthornError('NOT_FOUND', { what: 'API key', id: toDetail(id) })
  if (!isKeyId(id)) throw unknown
  return db.transaction(async (tx) => {
    const revoked = await tx.run(revokeStatement(db), [id, actor])
    const [row] = await tx.run<KeyRow>(readStatement(db), [id])
    if (row === undefined) throw unknown
    const key = fromRow(row)
    if (revoked.length > 0) {
      const details = { name: key.name }
      await recordAction(db, { actor, action: 'key.revoke', target: id, details, remote }, tx)
    }
    return key
  })
}

/** The newest first, those out of force included. */
export async function listKeys(db: Database): Promise<ApiKey[]> {
  return (await db.run<KeyRow>(listStatement(db), [keysMax])).map(fromRow)
}

/** Those of the ids that exist, whether in force or not. */
export async function findKeys(db: Database, ids: readonly string[]): Promise<Map<string, StoredKey>> {
  const rows = await db.run<StoredRow>(findStatement(db), [ids])
  return new Map(
    rows.map(([id, name, hash, scopes, ratePerSecond, state]) => [
      id,
      { id, name, hash, scopes, ratePerSecond, state },
    ]),
  )
}

/** Whether there has ever been a key: a server whose last key was revoked is closed, not open. */
export async function anyKeys(db: Database): Promise<boolean> {
  const [row] = await db.run<[exists: boolean]>(anyStatement(db), [])
  return (row as [boolean])[0]
}

/** Says that these keys were used just now. A crash may forget it. */
export async function touchKeys(db: Database, ids: readonly string[]): Promise<void> {
  await db.once(touchStatement(db), [ids], { durable: false })
}

const keysMax = 10_000

const columns = `k.id, k.name, k.scopes, k.rate_per_second, k.expires_at, k.state, k.created_at, k.created_by,
    k.revoked_at, k.revoked_by, k.last_used_at`

const createStatement = defineStatement(
  'create_key',
  `insert into __schema__.api_keys (id, name, hash, scopes, rate_per_second, created_at, created_by, expires_at)
  select $1::text, $2::text, $3::bytea, $4::text[], $5::double precision, __schema__.clock(), $6::text, $7::timestamptz
  where $7::timestamptz is null or $7::timestamptz > __schema__.clock()
  returning id`,
)

const revokeStatement = defineStatement(
  'revoke_key',
  `update __schema__.api_keys
  set revoked_at = __schema__.clock(), revoked_by = $2
  where id = $1 and revoked_at is null
  returning id`,
)

const readStatement = defineStatement(
  'read_key',
  `select ${columns} from __schema__.api_key_states k where k.id = $1`,
)

const listStatement = defineStatement(
  'list_keys',
  `select ${columns} from __schema__.api_key_states k order by k.created_at desc, k.id limit $1`,
)

const findStatement = defineStatement(
  'find_keys',
  `select k.id, k.name, k.hash, k.scopes, k.rate_per_second, k.state
  from __schema__.api_key_states k
  where k.id = any($1::text[])`,
)

const anyStatement = defineStatement('any_keys', 'select exists (select from __schema__.api_keys)')

/** Locked in one order, so that two nodes that saw the same keys do not lock each other out. */
const touchStatement = defineStatement(
  'touch_keys',
  `with used as materialized (
    select k.id
    from __schema__.api_keys k
    where k.id = any($1::text[])
    order by k.id
    for no key update
  )
  update __schema__.api_keys k
  set last_used_at = __schema__.clock()
  from used u
  where k.id = u.id`,
)

type StoredRow = [
  id: string,
  name: string,
  hash: Buffer,
  scopes: Scope[],
  ratePerSecond: number | null,
  state: KeyState,
]

type KeyRow = [
  id: string,
  name: string,
  scopes: Scope[],
  ratePerSecond: number | null,
  expiresAt: Date | null,
  state: KeyState,
  createdAt: Date,
  createdBy: string,
  revokedAt: Date | null,
  revokedBy: string | null,
  lastUsedAt: Date | null,
]

function fromRow(row: KeyRow): ApiKey {
  const [id, name, scopes, ratePerSecond, expiresAt, state, createdAt, createdBy, ...ending] = row
  const [revokedAt, revokedBy, lastUsedAt] = ending
  return {
    id,
    name,
    scopes,
    ratePerSecond,
    expiresAt,
    state,
    createdAt,
    createdBy,
    revokedAt,
    revokedBy,
    lastUsedAt,
  }
}
