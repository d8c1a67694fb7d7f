import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { hashSecret, newKey, parseKey } from '../../src/domain/api-key.ts'
import { createKey, listKeys, revokeKey } from '../../src/keys/api-keys.ts'
import { KeyRing, type KeyRingParts } from '../../src/keys/key-ring.ts'
import { createTestDatabase } from '../support/database.ts'
import { only, useEngines } from '../support/engine.ts'
import { startProxy } from '../support/proxy.ts'
import { createSignal } from '../support/signal.ts'

const openEngine = useEngines('key_ring', { schemas: 'emptied' })
const adminKey = 'correct horse battery'
const billing = { name: 'billing', scopes: ['publish', 'read'], actor: 'test' }
const rings: KeyRing[] = []

afterEach(async () => {
  vi.useRealTimers()
  await Promise.all(rings.splice(0).map((ring) => ring.stop()))
})

/** A ring on a clock that the test moves, and the names of the statements it sent. */
function openRing(db: Database, parts: Partial<KeyRingParts> = {}) {
  const time = { ms: 0 }
  const sent: string[] = []
  const counted = new Proxy(db, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        if (name === 'run' || name === 'once') sent.push((args[0] as { name: string }).name)
        return value.apply(target, args)
      }
    },
  })
  const ring = new KeyRing({ db: counted, adminKey: undefined, now: () => time.ms, ...parts })
  rings.push(ring)
  return { ring, time, sent, check: (text: string) => ring.check(`Bearer ${text}`) }
}

/** A database that knows one key, without a server. */
function fakeDatabase() {
  const { id, secret, text } = newKey()
  const row = [id, 'billing', hashSecret(secret), ['publish'], null, 'active']
  const touched: string[][] = []
  const answers: Record<string, unknown[]> = { any_keys: [[true]], find_keys: [row] }
  const db = {
    schema: 's',
    run: async ({ name }: { name: string }) => answers[name],
    once: async (_: unknown, [ids]: [string[]]) => void touched.push(ids),
  }
  return { db: db as unknown as Database, fake: db, id, text, touched }
}

describe('who gets in', () => {
  test('the holder of a key, with its name, scopes and rate', async () => {
    const { db } = await openEngine()
    const { id, text } = await createKey(db, { ...billing, ratePerSecond: 5 })
    const { ring, check } = openRing(db)
    const holder = { id, name: 'billing', scopes: ['publish', 'read'], ratePerSecond: 5 }
    expect(await check(text)).toEqual(holder)
    expect(await ring.check(`bearer   ${text} `)).toEqual(holder)
  })

  test('nobody with another secret, another id or half a key', async () => {
    const { db } = await openEngine()
    const { id, text } = await createKey(db, billing)
    const { check } = openRing(db)
    const other = newKey()
    expect(await check(`ph_${id}_${other.secret}`)).toBe('wrong')
    expect(await check(text.replace(id, other.id))).toBe('wrong')
    expect(await check(text.slice(0, -1))).toBe('wrong')
    expect(
      await check(`ph_${id}_${hashSecret(parseKey(text)?.secret as string).toString('base64url')}`),
    ).toBe('wrong')
  })

  test.each([
    [undefined, 'missing'],
    ['', 'missing'],
    ['  ', 'missing'],
    ['Bearer', 'wrong'],
    ['Bearer ', 'wrong'],
    ['Basic YWRtaW46YWRtaW4=', 'wrong'],
    ['Bearer\tx', 'wrong'],
    [`Bearer ${'x'.repeat(10_000)}`, 'wrong'],
    [`Bearer a${' '.repeat(10_000)}b`, 'wrong'],
  ])('%j is %s, and costs no query for a key', async (authorization, answer) => {
    const { db } = fakeDatabase()
    const { ring, sent } = openRing(db)
    expect(await ring.check(authorization)).toBe(answer)
    expect(sent).toEqual(['any_keys'])
  })

  test('a key that expires is wrong from then on, by the database’s clock', async () => {
    const engine = await openEngine()
    const { rows } = await engine.db.query<{ at: Date }>(
      `select ${engine.db.schema}.clock() + interval '1 h' as at`,
    )
    const { text } = await createKey(engine.db, { ...billing, expiresAt: rows[0]?.at as Date })
    const { check, time } = openRing(engine.db)
    expect(await check(text)).toMatchObject({ name: 'billing' })
    await engine.moveClock(3_600_000)
    time.ms += 2_000
    expect(await check(text)).toBe('wrong')
  })
})

describe('revocation', () => {
  test('counts on every node once what they remember is 2 s old', async () => {
    const { db } = await openEngine()
    const { id, text } = await createKey(db, billing)
    const nodes = [openRing(db), openRing(db)]
    const ask = () => Promise.all(nodes.map(({ check }) => check(text)))
    expect(await ask()).toMatchObject([{ id }, { id }])
    await revokeKey(db, { id, actor: 'test' })
    for (const { time } of nodes) time.ms += 1_999
    expect(await ask()).toMatchObject([{ id }, { id }])
    for (const { time } of nodes) time.ms += 1
    expect(await ask()).toEqual(['wrong', 'wrong'])
  })

  test('an answer that was 5 s on its way lets nobody in, as the key may be revoked by now', async () => {
    const { db, fake, text } = fakeDatabase()
    const { check, time } = openRing(db)
    const { run } = fake
    let tookMs = 5_001
    fake.run = async (statement) => {
      const answer = await run(statement)
      if (statement.name === 'find_keys') time.ms += tookMs
      return answer
    }
    await expect(check(text)).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    tookMs = 4_999
    expect(await check(text)).toMatchObject({ name: 'billing' })
  })
})

describe('a server without keys', () => {
  test('is open until there is one, whatever the caller sends', async () => {
    const { db } = await openEngine()
    const { ring, time, check } = openRing(db)
    expect(await ring.check(undefined)).toBe('open')
    expect(await check(newKey().text)).toBe('open')
    const { text } = await createKey(db, billing)
    time.ms += 2_000
    expect(await ring.check(undefined)).toBe('missing')
    expect(await check(newKey().text)).toBe('wrong')
    expect(await check(text)).toMatchObject({ name: 'billing' })
  })

  test('does not open again when the last key is revoked, even after a restart', async () => {
    const { db } = await openEngine()
    const { id, text } = await createKey(db, billing)
    const before = openRing(db)
    await before.check(text)
    await revokeKey(db, { id, actor: 'test' })
    before.time.ms += 60_000
    for (const { ring, check } of [before, openRing(db)]) {
      expect(await ring.check(undefined)).toBe('missing')
      expect(await check(text)).toBe('wrong')
    }
  })

  test('asks for keys once in 2 s, and never again once there was one', async () => {
    const { db } = await openEngine()
    const { ring, time, sent } = openRing(db)
    await Promise.all(Array.from({ length: 50 }, () => ring.check(undefined)))
    expect(sent).toEqual(['any_keys'])
    await createKey(db, billing)
    for (let rounds = 0; rounds < 5; rounds++) {
      time.ms += 2_000
      await ring.check(undefined)
    }
    expect(sent).toEqual(['any_keys', 'any_keys'])
  })
})

describe('the admin key', () => {
  test('may do everything, needs no row and no query, and closes the server', async () => {
    const { db } = await openEngine()
    const { ring, check, sent } = openRing(db, { adminKey })
    expect(await check(adminKey)).toEqual({
      id: 'admin',
      name: 'admin',
      scopes: ['admin'],
      ratePerSecond: null,
    })
    expect(await ring.check(undefined)).toBe('missing')
    expect(await check(`${adminKey}x`)).toBe('wrong')
    expect(await check(adminKey.slice(1))).toBe('wrong')
    expect(sent).toEqual([])
  })

  test('works beside the other keys, and may look like one', async () => {
    const { db } = await openEngine()
    const { text } = await createKey(db, billing)
    const { text: likeOne } = newKey()
    const { check } = openRing(db, { adminKey: likeOne })
    expect(await check(likeOne)).toMatchObject({ id: 'admin' })
    expect(await check(text)).toMatchObject({ name: 'billing' })
  })

  test.each(['', 'fifteen letters', ' a key with a space', 'ein Schlüssel mit Umlaut', 'x'.repeat(1001)])(
    '%j is refused without being told',
    (bad) => {
      const { db } = fakeDatabase()
      try {
        new KeyRing({ db, adminKey: bad })
        expect.unreachable()
      } catch (error) {
        expect(error).toMatchObject({ code: 'BAD_OPTION', details: { option: 'POSTHORN_ADMIN_KEY' } })
        if (bad !== '') expect(JSON.stringify(error) + String(error)).not.toContain(bad)
      }
    },
  )
})

describe('what it costs', () => {
  test('one query for a key that many use at once, and none while it is fresh', async () => {
    const { db } = await openEngine()
    const { text } = await createKey(db, billing)
    const { check, sent, time } = openRing(db)
    const use = () => Promise.all(Array.from({ length: 100 }, () => check(text)))
    await use()
    await use()
    expect(sent).toEqual(['any_keys', 'find_keys'])
    time.ms += 2_000
    await use()
    expect(sent).toEqual(['any_keys', 'find_keys', 'find_keys'])
  })

  test('no further query while one for the same key is under way', async () => {
    const { db, fake, text } = fakeDatabase()
    const { check, sent } = openRing(db)
    const { run } = fake
    const answer = createSignal()
    const asked = createSignal()
    fake.run = async (statement) => {
      if (statement.name === 'find_keys') {
        asked.give()
        await answer.given
      }
      return run(statement)
    }
    const first = check(text)
    await asked.given
    const others = Array.from({ length: 10 }, () => check(text))
    // A turn of the event loop, in which another query would leave.
    await new Promise(setImmediate)
    await new Promise(setImmediate)
    answer.give()
    const holders = await Promise.all([first, ...others])
    expect(holders.filter((holder) => typeof holder === 'object')).toHaveLength(11)
    expect(sent).toEqual(['any_keys', 'find_keys'])
  })

  test('a flood of one wrong key is one query, be its id unknown or its secret wrong', async () => {
    const { db } = await openEngine()
    const { id } = await createKey(db, billing)
    const { check, sent } = openRing(db)
    const { text, secret } = newKey()
    for (let rounds = 0; rounds < 50; rounds++) {
      expect(await check(text)).toBe('wrong')
      expect(await check(`ph_${id}_${secret}`)).toBe('wrong')
    }
    expect(sent).toEqual(['any_keys', 'find_keys', 'find_keys'])
  })

  test('a flood of made-up keys is a few queries, and does not push out a key in use', async () => {
    const { db } = await openEngine()
    const { text } = await createKey(db, billing)
    const { check, sent } = openRing(db)
    await check(text)
    sent.length = 0
    const madeUp = Array.from({ length: 12_000 }, () => newKey().text)
    const answers = await Promise.all(madeUp.map(check))
    expect(new Set(answers)).toEqual(new Set(['wrong']))
    expect(sent).toHaveLength(12)
    expect(await check(text)).toMatchObject({ name: 'billing' })
    expect(await check(madeUp.at(-1) as string)).toBe('wrong')
    expect(sent).toHaveLength(12)
    // The first made way for the last: what is remembered is bounded.
    expect(await check(madeUp[0] as string)).toBe('wrong')
    expect(sent).toHaveLength(13)
  })
})

describe('the last use', () => {
  test('is in the table once the ring is stopped, of the keys that got in', async () => {
    const { db } = await openEngine()
    const used = await createKey(db, billing)
    const unused = await createKey(db, billing)
    const { ring, check, sent } = openRing(db)
    await Promise.all([check(used.text), check(used.text), check(`ph_${unused.id}_${newKey().secret}`)])
    await ring.stop()
    await ring.stop()
    const listed = await listKeys(db)
    expect(only(listed.filter(({ lastUsedAt }) => lastUsedAt !== null)).id).toBe(used.id)
    expect(sent.filter((name) => name === 'touch_keys')).toHaveLength(1)
  })

  test('is written every 10 s at most, and not at all when nobody calls', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { db, id, text, touched } = fakeDatabase()
    const { check } = openRing(db)
    for (let calls = 0; calls < 10; calls++) await check(text)
    await vi.advanceTimersByTimeAsync(9_999)
    expect(touched).toEqual([])
    await check(text)
    await vi.advanceTimersByTimeAsync(1)
    expect(touched).toEqual([[id]])
    expect(vi.getTimerCount()).toBe(0)
    await check(text)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(touched).toEqual([[id], [id]])
  })

  test('is written later when it could not be written, and the trouble is told', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { db, fake, id, text, touched } = fakeDatabase()
    const trouble = vi.fn()
    const { check, ring } = openRing(db, { trouble })
    const { once } = fake
    const gone = new Error('gone')
    fake.once = () => Promise.reject(gone)
    await check(text)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(trouble).toHaveBeenCalledExactlyOnceWith(gone, expect.any(String))
    fake.once = once
    await vi.advanceTimersByTimeAsync(10_000)
    expect(touched).toEqual([[id]])
    await ring.stop()
    expect(touched).toHaveLength(1)
  })

  test('leaves no timer behind when the ring is stopped, and starts none after', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { db, fake, text } = fakeDatabase()
    fake.once = () => Promise.reject(new Error('gone'))
    const { check, ring } = openRing(db)
    await check(text)
    expect(vi.getTimerCount()).toBe(1)
    await ring.stop()
    expect(await check(text)).toMatchObject({ name: 'billing' })
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('without the database', () => {
  test('nobody is let in, nobody is told that the key is wrong, and all is well when it is back', async () => {
    const database = await createTestDatabase('key_ring_away')
    const proxy = await startProxy(database.connection)
    let away: PostgresDatabase | undefined
    try {
      await migrate(await database.open())
      away = await openPostgres({ connection: proxy.connection, poolMax: 2 })
      const { text } = await createKey(away, billing)
      const { check, time, ring } = openRing(away)
      const wentAway = { code: 'DATABASE_UNAVAILABLE' }

      proxy.cutAt('any_keys', 'before')
      await expect(ring.check(undefined)).rejects.toMatchObject(wentAway)
      for (const when of ['before', 'after'] as const) {
        proxy.cutAt('find_keys', when)
        await expect(check(text)).rejects.toMatchObject(wentAway)
      }
      expect(await check(text)).toMatchObject({ name: 'billing' })

      await proxy.close()
      time.ms += 1_999
      expect(await check(text)).toMatchObject({ name: 'billing' })
      time.ms += 1
      await expect(check(text)).rejects.toMatchObject(wentAway)
      await expect(check(newKey().text)).rejects.toMatchObject(wentAway)
    } finally {
      await away?.close()
      await database.drop()
    }
  })
})
