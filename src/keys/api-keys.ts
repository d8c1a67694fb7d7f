import { type Database, defineStatement } from '../db/database.ts'
import { namedRows } from '../db/rows.ts'
import {
  defineKey,
  hashSecret,
  isKeyId,
  type KeyDefinition,
  type KeyHolder,
  type KeyOptions,
  newKey,
} from '../domain/api-key.ts'
import { badOption } from '../domain/bad-value.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { recordAction } from './admin-log.ts'

export type KeyState = 'active' | 'expired' | 'revoked'

/** A key as lists show it: without its secret. */
export interface ApiKey extends KeyDefinition {
  readonly id: string
  readonly state: KeyState
  readonly createdAt: Date
  readonly createdBy: string
  readonly revokedAt: Date | null
  readonly revokedBy: string | null
  /** Accurate to ten seconds. */
  readonly lastUsedAt: Date | null
}

export interface CreatedKey extends ApiKey {
  /** The key itself. Nobody can read it again. */
  readonly text: string
}

/** What the check of a call needs. */
export interface StoredKey extends KeyHolder {
  readonly hash: Buffer
  readonly state: KeyState
}

/** Who acts, and from where: for the admin log. */
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
    const { rows } = await tx.query<ApiKey>(readStatement(db).text, [id])
    return { ...(rows[0] as ApiKey), text }
  })
}

/** Revokes a key for good, on every node within five seconds. A second call changes nothing. */
export async function revokeKey(db: Database, request: { readonly id: string } & ActedBy): Promise<ApiKey> {
  const { id, actor, remote = null } = request
  const unknown = new PosthornError('NOT_FOUND', { what: 'API key', id: toDetail(id) })
  if (!isKeyId(id)) throw unknown
  return db.transaction(async (tx) => {
    const revoked = await tx.run(revokeStatement(db), [id, actor])
    const [key] = (await tx.query<ApiKey>(readStatement(db).text, [id])).rows
    if (key === undefined) throw unknown
    if (revoked.length > 0) {
      const details = { name: key.name }
      await recordAction(db, { actor, action: 'key.revoke', target: id, details, remote }, tx)
    }
    return key
  })
}

/** All keys, newest first, with those that are expired or revoked. */
export async function listKeys(db: Database): Promise<ApiKey[]> {
  return (await db.query<ApiKey>(listStatement(db).text, [keysMax])).rows
}

/** The keys with these ids, with those that are expired or revoked. */
export async function findKeys(db: Database, ids: readonly string[]): Promise<Map<string, StoredKey>> {
  const rows = await db.run(findStatement(db), [ids])
  const keys = namedRows<StoredKey>(['id', 'name', 'hash', 'scopes', 'ratePerSecond', 'state'], rows)
  return new Map(keys.map((key) => [key.id, key]))
}

/** Whether there has ever been a key: a server whose last key was revoked stays closed. */
export async function anyKeys(db: Database): Promise<boolean> {
  const [row] = await db.run<[exists: boolean]>(anyStatement(db), [])
  return (row as [boolean])[0]
}

/** Notes that these keys were used just now. A crash may lose the note. */
export async function touchKeys(db: Database, ids: readonly string[]): Promise<void> {
  await db.once(touchStatement(db), [ids], { durable: false })
}

const keysMax = 10_000

const columns = `k.id, k.name, k.scopes, k.rate_per_second as "ratePerSecond", k.expires_at as "expiresAt", k.state,
    k.created_at as "createdAt", k.created_by as "createdBy", k.revoked_at as "revokedAt", k.revoked_by as "revokedBy",
    k.last_used_at as "lastUsedAt"`

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

/** Locks keys in one order, so that two nodes that saw the same keys cannot deadlock. */
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
