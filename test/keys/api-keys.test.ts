import { describe, expect, test } from 'vitest'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { hashSecret, newKey, parseKey } from '../../src/domain/api-key.ts'
import { recordAction } from '../../src/keys/admin-log.ts'
import { anyKeys, createKey, findKeys, listKeys, revokeKey, touchKeys } from '../../src/keys/api-keys.ts'
import { listActions } from '../support/admin-log.ts'
import { only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('api_keys', { schemas: 'emptied' })
const hourMs = 3_600_000
const billing = { name: 'billing', scopes: ['publish', 'read'], actor: 'cli:anna', remote: '10.0.0.7' }

const inAnHour = async (db: PostgresDatabase) => {
  const { rows } = await db.query<{ at: Date }>(`select ${db.schema}.clock() + interval '1 h' as at`)
  return rows[0]?.at as Date
}

describe('creating', () => {
  test('the key is given once; the list has all but the key', async () => {
    const { db } = await openEngine()
    const expiresAt = await inAnHour(db)
    const { text, ...key } = await createKey(db, { ...billing, ratePerSecond: 2.5, expiresAt })
    expect(parseKey(text)?.id).toBe(key.id)
    expect(key).toEqual({
      id: key.id,
      name: 'billing',
      scopes: ['publish', 'read'],
      ratePerSecond: 2.5,
      expiresAt,
      state: 'active',
      createdAt: expect.any(Date),
      createdBy: 'cli:anna',
      revokedAt: null,
      revokedBy: null,
      lastUsedAt: null,
    })
    expect(await listKeys(db)).toEqual([key])
  })

  test('a dump of the database holds the hash, and nothing that lets anybody in', async () => {
    const { db } = await openEngine()
    const { id, text } = await createKey(db, billing)
    const secret = parseKey(text)?.secret as string
    const { rows } = await db.query<{ dump: string }>(
      `select (select string_agg(k::text, '') from ${db.schema}.api_keys k)
        || (select string_agg(l::text, '') from ${db.schema}.admin_log l) as dump`,
    )
    const dump = rows[0]?.dump as string
    expect(dump).toContain(id)
    expect(dump).toContain(hashSecret(secret).toString('hex'))
    expect(dump).not.toContain(secret)
    expect(dump).not.toContain(Buffer.from(secret, 'base64url').toString('hex'))
  })

  test('it is logged with who, from where and what, but not the key', async () => {
    const { db } = await openEngine()
    const expiresAt = await inAnHour(db)
    const { id } = await createKey(db, { ...billing, expiresAt })
    expect(only(await listActions(db))).toEqual({
      id: 1,
      at: expect.any(Date),
      actor: 'cli:anna',
      action: 'key.create',
      target: id,
      details: {
        name: 'billing',
        scopes: ['publish', 'read'],
        rate_per_second: null,
        expires_at: expiresAt.toISOString(),
      },
      remote: '10.0.0.7',
    })
  })

  test('without its record there is no key, nor a revocation', async () => {
    const { db } = await openEngine()
    const { id } = await createKey(db, billing)
    await db.query(`alter table ${db.schema}.admin_log add check (actor <> 'nobody')`)
    await expect(createKey(db, { ...billing, actor: 'nobody' })).rejects.toThrow('check constraint')
    await expect(revokeKey(db, { id, actor: 'nobody' })).rejects.toThrow('check constraint')
    expect(only(await listKeys(db))).toMatchObject({ id, state: 'active' })
  })

  test('an expiry that the database’s clock has passed is refused, and nothing is stored', async () => {
    const engine = await openEngine()
    const expiresAt = await inAnHour(engine.db)
    await engine.moveClock(hourMs)
    await expect(createKey(engine.db, { ...billing, expiresAt })).rejects.toMatchObject({
      code: 'BAD_OPTION',
      details: { option: 'expiresAt', value: expiresAt.toISOString() },
    })
    expect(await anyKeys(engine.db)).toBe(false)
    expect(await listActions(engine.db)).toEqual([])
  })
})

describe('revoking', () => {
  test('it holds for good, and revoking again changes nothing', async () => {
    const engine = await openEngine()
    const { db } = engine
    const { id } = await createKey(db, billing)
    const first = await revokeKey(db, { id, actor: 'k1', remote: '::1' })
    expect(first).toMatchObject({ id, state: 'revoked', revokedBy: 'k1', revokedAt: expect.any(Date) })
    await engine.moveClock(hourMs)
    expect(await revokeKey(db, { id, actor: 'k2' })).toEqual(first)
    const [record, ...before] = await listActions(db)
    expect(record).toMatchObject({ actor: 'k1', action: 'key.revoke', target: id, remote: '::1' })
    expect(before).toHaveLength(1)
  })

  test('of those who revoke at once one did it', async () => {
    const { db } = await openEngine()
    const { id } = await createKey(db, billing)
    const revoked = await Promise.all(
      Array.from({ length: 6 }, (_, n) => revokeKey(db, { id, actor: `k${n}` })),
    )
    expect(new Set(revoked.map(({ revokedBy }) => revokedBy)).size).toBe(1)
    const records = (await listActions(db)).filter(({ action }) => action === 'key.revoke')
    expect(only(records).actor).toBe(revoked[0]?.revokedBy)
  })

  test.each([newKey().id, '', 'no such id', 'a\u0000b', newKey().id.toUpperCase()])(
    'there is no %j to revoke, and no record of it',
    async (id) => {
      const { db } = await openEngine()
      await expect(revokeKey(db, { id, actor: 'k' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
      expect(await listActions(db)).toEqual([])
    },
  )
})

test('a key’s state is judged by the database’s clock, and revoked counts before expired', async () => {
  const engine = await openEngine()
  const { db } = engine
  const expiresAt = await inAnHour(db)
  const { id: expiring } = await createKey(db, { ...billing, expiresAt })
  const { id: revoked } = await createKey(db, { ...billing, expiresAt })
  const { id: lasting } = await createKey(db, billing)
  await revokeKey(db, { id: revoked, actor: 'k' })
  const states = async () => {
    const found = await findKeys(db, [expiring, revoked, lasting])
    return [expiring, revoked, lasting].map((id) => found.get(id)?.state)
  }
  expect(await states()).toEqual(['active', 'revoked', 'active'])
  await engine.moveClock(hourMs)
  expect(await states()).toEqual(['expired', 'revoked', 'active'])
})

test('keys are found by id, with what it takes to judge a call', async () => {
  const { db } = await openEngine()
  const first = await createKey(db, { ...billing, ratePerSecond: 7 })
  const second = await createKey(db, { ...billing, scopes: ['admin'] })
  const found = await findKeys(db, [first.id, newKey().id, second.id])
  expect([...found.keys()].sort()).toEqual([first.id, second.id].sort())
  expect(found.get(first.id)).toEqual({
    id: first.id,
    name: 'billing',
    hash: hashSecret(parseKey(first.text)?.secret as string),
    scopes: ['publish', 'read'],
    ratePerSecond: 7,
    state: 'active',
  })
})

test('there are keys from the first one on, also when all are revoked', async () => {
  const { db } = await openEngine()
  expect(await anyKeys(db)).toBe(false)
  const { id } = await createKey(db, billing)
  expect(await anyKeys(db)).toBe(true)
  await revokeKey(db, { id, actor: 'k' })
  expect(await anyKeys(db)).toBe(true)
})

test('many keys are touched at once, from many sides, and those that do not exist do not matter', async () => {
  const { db } = await openEngine()
  const created = await Promise.all(Array.from({ length: 20 }, () => createKey(db, billing)))
  const ids = created.map(({ id }) => id)
  const [idle, ...used] = ids
  await Promise.all([touchKeys(db, [...used, newKey().id]), touchKeys(db, [...used].reverse())])
  const listed = await listKeys(db)
  expect(listed.filter(({ lastUsedAt }) => lastUsedAt !== null)).toHaveLength(19)
  expect(listed.find(({ lastUsedAt }) => lastUsedAt === null)?.id).toBe(idle)
})

describe('the admin log', () => {
  test.each([
    `update %.admin_log set actor = 'somebody else'`,
    `update %.admin_log set actor = actor where false`,
    'delete from %.admin_log',
    'truncate %.admin_log',
    `set local session_replication_role = replica; delete from %.admin_log`,
  ])('only grows: %s', async (statement) => {
    const { db } = await openEngine()
    await recordAction(db, { actor: 'k', action: 'event.reset', target: '7' })
    const sql = statement.replaceAll('%', db.schema)
    await expect(db.transaction((tx) => tx.query(sql))).rejects.toThrow('admin_log only grows')
    expect(only(await listActions(db))).toMatchObject({ actor: 'k', action: 'event.reset', target: '7' })
  })

  test('a record stands or falls with the transaction it is written in', async () => {
    const { db } = await openEngine()
    const action = { actor: 'k', action: 'x' }
    const undone = db.transaction(async (tx) => {
      await recordAction(db, action, tx)
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    expect(await listActions(db)).toEqual([])
    await db.transaction((tx) => recordAction(db, action, tx))
    expect(only(await listActions(db))).toMatchObject({ target: null, details: null, remote: null })
  })

  test('whatever is told is kept, cut where it is too long', async () => {
    const { db } = await openEngine()
    const odd = `a\u0000\ud800'"\\`
    await recordAction(db, { actor: odd, action: odd, target: odd, details: { odd }, remote: odd })
    await recordAction(db, { actor: 'x'.repeat(5000), action: 'y', details: { ids: 'z'.repeat(20_000) } })
    const [long, strange] = await listActions(db)
    expect(strange).toMatchObject({ actor: `a\ufffd\ufffd'"\\`, details: { odd } })
    expect(long?.actor).toHaveLength(1000)
    expect(long?.details).toEqual({ cut: expect.stringMatching(/^\{"ids":"z+…$/) })
  })
})
