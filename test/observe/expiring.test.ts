import { expect, test } from 'vitest'
import { readAtOnce } from '../../src/core/reader.ts'
import { countExpiring, readStats } from '../../src/observe/stats.ts'
import { type Engine, useEngines } from '../support/engine.ts'

const openEngine = useEngines('expiring', { schemas: 'emptied' })

interface Waiting {
  readonly subscription: number
  readonly seconds: number
  readonly deliveries: number
  readonly table: 'runs' | 'lane_queue' | 'inbox'
}

/** What waits, put where it would be. The clock stands still, so that the numbers are exact. */
async function store({ db }: Engine, waiting: readonly Waiting[]): Promise<void> {
  await stopClock(db)
  const rows = (table: Waiting['table']) => [
    JSON.stringify(waiting.map((one, place) => ({ ...one, place })).filter((one) => one.table === table)),
  ]
  const expiry = `${db.schema}.clock() + w.seconds * interval '1 s'`
  const ids = 'array(select generate_series(1, w.deliveries))'
  const from = 'from json_to_recordset($1) as w(subscription int, seconds float8, deliveries int, place int)'
  await db.query(
    `insert into ${db.schema}.runs (subscription, state, event_ids, first_id, concurrency_key, due_at, expires_at)
    select w.subscription, (array['ready', 'deferred', 'gated'])[1 + w.place % 3]::${db.schema}.run_state, ${ids}, w.place,
      'gate', ${db.schema}.clock(), ${expiry} ${from}`,
    rows('runs'),
  )
  await db.query(
    `insert into ${db.schema}.lane_queue (subscription, ordering_key, position, event_ids, expires_at)
    select w.subscription, 'k', w.place, ${ids}, ${expiry} ${from}`,
    rows('lane_queue'),
  )
  await db.query(
    `insert into ${db.schema}.inbox (subscription, event_ids, expires_ats)
    select w.subscription, ${ids}, array_fill(${expiry}, array[cardinality(${ids})]) ${from}`,
    rows('inbox'),
  )
}

async function stopClock(db: Engine['db']): Promise<void> {
  await db.query(`create or replace function ${db.schema}.clock() returns timestamptz
    language sql stable as 'select timestamptz ''2030-01-01T00:00:00Z'''`)
}

async function setRate({ db }: Engine, subscription: number, perSecond: number): Promise<void> {
  await db.query(
    `insert into ${db.schema}.queue_counters
      (subscription, processed, errors, timed, execution_ms, ended_per_second, counted_at)
    values ($1, 0, 0, 0, 0, $2, ${db.schema}.clock())
    on conflict (subscription) do update set ended_per_second = excluded.ended_per_second`,
    [subscription, perSecond],
  )
}

async function expiring({ db }: Engine): Promise<Record<number, number>> {
  const found = await readAtOnce(db, countExpiring)
  return Object.fromEntries(found.map(({ subscription, deliveries }) => [subscription, deliveries]))
}

const run = (seconds: number, deliveries: number, subscription = 0): Waiting => ({
  ...{ seconds, deliveries, subscription, table: 'runs' },
})

// By hand: of each expiry, how many end until then, less what can be begun until then.
test.each([
  ['nothing waits', 1, [], undefined],
  ['all can be begun: 10 − 2 × 10 and 20 − 2 × 20', 2, [run(10, 10), run(20, 10)], undefined],
  ['just in time: 10 − 1 × 10', 1, [run(10, 10)], undefined],
  ['three too many: 13 − 1 × 10', 1, [run(10, 13)], 3],
  ['the first is the worst: 30 − 1 × 10 = 20, and 40 − 1 × 100 < 0', 1, [run(10, 30), run(100, 10)], 20],
  ['the second is the worst: 5 − 1 × 10 < 0, and 5 + 60 − 1 × 30 = 35', 1, [run(30, 60), run(10, 5)], 35],
  ['those that end together count together: 4 + 4 − 0.5 × 10', 0.5, [run(10, 4), run(10, 4)], 3],
  ['half a delivery more than there is time for is one: 6 − 0.55 × 10', 0.55, [run(10, 6)], 1],
  ['nothing ends at all: 5', 0, [run(1_000_000, 5)], 5],
  ['what is past is missed, however fast: 2 − 100 × 0', 100, [run(-5, 2), run(60, 10)], 2],
] as const)('%s', async (_, rate, waiting, expected) => {
  const engine = await openEngine()
  await store(engine, waiting)
  await setRate(engine, 0, rate)
  expect((await expiring(engine))[0]).toBe(expected)
})

test('without a rate nothing ends, and what is leased or lives for ever does not expire', async () => {
  const engine = await openEngine()
  await store(engine, [run(10, 3)])
  await engine.db.query(
    `insert into ${engine.db.schema}.runs (subscription, state, event_ids, first_id, leased_until, expires_at)
    values (0, 'leased', '{1,2}', 1, ${engine.db.schema}.clock(), ${engine.db.schema}.clock()),
      (0, 'ready', '{3,4}', 3, null, null)`,
  )
  expect(await expiring(engine)).toEqual({ 0: 3 })
})

test('of a queue the first 10,000 to expire are looked at', async () => {
  const engine = await openEngine()
  await store(
    engine,
    Array.from({ length: 90 }, (_, place) => run(place + 1, 150)),
  )
  expect(await expiring(engine)).toEqual({ 0: 10_000 })
})

test('the figures have it by subscription', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('mail', ['note'])
  await store(engine, [run(10, 7, no), run(5, 1)])
  await setRate(engine, no, 0.5)
  await setRate(engine, 0, 1)
  const { queues } = await readStats(engine.db, { overdueAfterMs: 60_000 })
  expect(queues.map(({ name, expiring }) => [name, expiring])).toEqual([
    ['work', 0],
    ['mail', 2],
  ])
})

test('SQL and a plain computation agree on random queues', async () => {
  const random = seeded(7)
  const upTo = (max: number) => Math.floor(random() * max)
  const engine = await openEngine()
  const { schema } = engine.db
  for (let round = 0; round < 30; round++) {
    await engine.db.query(`truncate ${schema}.runs, ${schema}.lane_queue, ${schema}.inbox`)
    const waiting = Array.from({ length: upTo(300) }, () => ({
      subscription: upTo(4),
      seconds: upTo(200) / 4 - 5,
      deliveries: 1 + upTo(20),
      table: (['runs', 'lane_queue', 'inbox'] as const)[upTo(3)] as Waiting['table'],
    }))
    // Eighths are exact in both.
    const rates = [0, 1, 2, 3].map(() => upTo(800) / 8)
    await store(engine, waiting)
    for (const [subscription, rate] of rates.entries()) await setRate(engine, subscription, rate)
    const expected = rates.flatMap((rate, subscription) => {
      const count = plainly(
        waiting.filter((one) => one.subscription === subscription),
        rate,
      )
      return count === 0 ? [] : [[subscription, count]]
    })
    expect(await expiring(engine), `round ${round}`).toEqual(Object.fromEntries(expected))
  }
})

/** One delivery at a time, as they expire. */
function plainly(waiting: readonly Waiting[], rate: number): number {
  const seconds = waiting
    .flatMap((one) => Array.from({ length: one.deliveries }, () => Math.max(0, one.seconds)))
    .sort((a, b) => a - b)
    .slice(0, 10_000)
  return Math.ceil(Math.max(0, ...seconds.map((until, place) => place + 1 - rate * until)))
}

/** Mulberry32: the same numbers at every run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
