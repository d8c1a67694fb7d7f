import { expect, test } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import type { EventInput } from '../../src/domain/event.ts'
import { admitAll, type Engine, laneOf, rowsRead, useEngines } from '../support/engine.ts'

const openEngine = useEngines('batch_order')

const work = 0
const later = (minutes: number) => new Date(Date.now() + 3_600_000 + minutes * 60_000)

/** Fields by which deliveries are stored apart, other for each event. */
const mixes: Record<string, (n: number) => Partial<EventInput>> = {
  'every expiry is another': (n) => ({ expiresAt: later(n) }),
  'every second has an expiry': (n) => (n % 2 === 0 ? { expiresAt: later(0) } : {}),
  'tags differ': (n) => ({ tags: `a,t${n % 700}` }),
  'max retries differ': (n) => ({ tags: 'a', maxRetries: 1 + (n % 900) }),
  'all of them differ': (n) => ({ tags: `t${n % 3}`, maxRetries: 1 + (n % 5), expiresAt: later(n % 7) }),
}

test.each(Object.keys(mixes))('a batch of 1,000 events of one key keeps its order where %s', async (name) => {
  const engine = await openEngine()
  const mix = mixes[name] as (n: number) => Partial<EventInput>
  const no = await engine.subscribe('s', ['note'])
  const ids = await engine.publish(...batch(1_000, (n) => ({ orderingKey: 'k', ...mix(n) })))
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual(ids)
  if (mix(0).tags !== undefined) expect(await laneOf(engine, work, 'k')).toEqual(ids)
})

test('thirteen batches of 900 events with two expiries each keep 50 lanes in order, in whatever portions they are admitted', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const ids: number[][] = Array.from({ length: 50 }, () => [])
  for (let call = 0; call < 13; call++) {
    const events = batch(900, (n) => ({
      orderingKey: `k${n % 50}`,
      expiresAt: later(Math.floor(n / 50) % 2),
    }))
    const published = await engine.publish(...events)
    for (const [n, id] of published.entries()) ids[n % 50]?.push(id)
  }
  await admitAll(engine)
  for (const [lane, expected] of ids.entries()) expect(await laneOf(engine, no, `k${lane}`)).toEqual(expected)
})

test('a delayed batch of mixed fields enters its lane in order when it is due', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const runAt = new Date(Date.now() + 60_000)
  const ids = await engine.publish(
    ...batch(1_000, (n) => ({ orderingKey: 'k', runAt, expiresAt: later(n % 700), tags: `t${n % 2}` })),
  )
  await engine.moveClock(120_000)
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual(ids)
  expect(await laneOf(engine, work, 'k')).toEqual(ids)
})

test('a delayed batch of which a part is being cancelled does not overtake that part when it is due', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  const runAt = new Date(Date.now() + 60_000)
  const ids = await engine.publish(...batch(400, () => ({ orderingKey: 'k', runAt })))
  await engine.moveClock(120_000)
  await db.transaction(async (tx) => {
    await tx.query(`select 1 from ${db.schema}.runs where event_ids @> array[$1::bigint] for update`, [
      ids[7],
    ])
    await admitAll(engine)
    expect(await laneOf(engine, no, 'k')).toEqual([])
  })
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual(ids)
})

test('an admission looks at a bounded number of arrivals, however many wait at the door', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  await fillInbox(engine.db, no, 20_000)
  const first = await admitAndCount(engine, nothingSeen)
  expect(first).toMatchObject({ moved: expect.any(Number), lookedAt: expect.any(Number) })
  expect(first.moved).toBeGreaterThanOrEqual(500)
  // Each is looked at by the scan and by the delete.
  expect(first.lookedAt).toBeLessThanOrEqual(1_100)
  expect((await admitAndCount(engine, first.seen)).lookedAt).toBeLessThanOrEqual(1_100)
})

test('arrivals of a transaction that has not ended cost an admission nothing, and are found when it ends', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  let { seen } = await admitAndCount(engine, nothingSeen)
  await db.transaction(async (tx) => {
    await fillInbox({ schema: db.schema, query: (text, values) => tx.query(text, values) }, no, 5_000)
    seen = (await admitAndCount(engine, seen)).seen
    expect(await admitAndCount(engine, seen)).toMatchObject({ moved: 0, lookedAt: 0 })
  })
  expect(await admitAndCount(engine, seen)).toMatchObject({ moved: 1_000 })
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k0')).toEqual([1_000_001])
})

function batch(size: number, event: (n: number) => Partial<EventInput>): Partial<EventInput>[] {
  return Array.from({ length: size }, (_, n) => event(n))
}

/** One arrival per lane, as if each had been published by itself. */
async function fillInbox(
  db: Queryable & { readonly schema: string },
  no: number,
  arrivals: number,
): Promise<void> {
  await db.query(
    `insert into ${db.schema}.inbox (subscription, event_ids, ordering_keys)
    select $1, array[1000001 + n], array['k' || n] from generate_series(0, $2::int - 1) as n order by n`,
    [no, arrivals],
  )
}

type Seen = readonly (string | null)[]

const nothingSeen: Seen = [null, null, null, null]

/** One admission, and how many rows of the inbox it has looked at, visible or not. */
async function admitAndCount({ db }: Engine, seen: Seen) {
  return db.transaction(async (tx) => {
    const before = await rowsRead(tx, `${db.schema}.inbox`)
    const { rows } = await tx.query<{ moved: number; seen: Seen }>(
      `select moved, array[seen_id::text, seen_xid::text, seen_pending::text, era::text] as seen
      from ${db.schema}.admit($1::bigint, $2::xid8, $3::xid8[], $4::uuid, 10000)`,
      seen,
    )
    const { moved, seen: next } = rows[0] as { moved: number; seen: Seen }
    return { moved, seen: next, lookedAt: (await rowsRead(tx, `${db.schema}.inbox`)) - before }
  })
}
