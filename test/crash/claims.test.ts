import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '../../src/db/migrate.ts'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { type LeaseRequest, lease } from '../../src/engine/lease.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

/**
 * A claim with LIMIT returns too much when the planner runs it more than once. So the planner is pushed into
 * every corner, its statistics are those of empty tables, and several claim at once.
 */
const corners = [
  { planner: 'left alone', options: '' },
  {
    planner: 'made to nest loops',
    options: '-c enable_hashjoin=off -c enable_material=off -c enable_memoize=off',
  },
  { planner: 'kept from nesting loops', options: '-c enable_nestloop=off' },
  { planner: 'made to plan for any values', options: '-c plan_cache_mode=force_generic_plan' },
  {
    planner: 'kept from indexes',
    options:
      '-c enable_indexscan=off -c enable_indexonlyscan=off -c enable_bitmapscan=off -c enable_hashjoin=off',
  },
]

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase('claims')
  const db = await database.open()
  await migrate(db)
  await db.query(
    `alter table posthorn.runs set (autovacuum_enabled = false);
    alter table posthorn.ready_tags set (autovacuum_enabled = false);
    alter table posthorn.events set (autovacuum_enabled = false);
    analyze posthorn.runs, posthorn.ready_tags, posthorn.events;
    insert into posthorn.subscriptions (id, name, via, retry, lease_ms)
    select gen_random_uuid(), 'queue ' || n, 'pull', '{}', 60000 from generate_series(1, 2) as n`,
  )
})
afterAll(() => database.drop())

const runShape = fc.record({
  subscription: fc.integer({ min: 1, max: 2 }),
  size: fc.oneof(fc.constant(1), fc.integer({ min: 2, max: 12 }), fc.integer({ min: 13, max: 200 })),
  lane: fc.boolean(),
  tags: fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }),
  suspect: fc.integer({ min: 0, max: 9 }).map((dice) => dice === 0),
  expiring: fc.integer({ min: 0, max: 4 }).map((dice) => dice === 0),
})
type RunShape = ReturnType<typeof runShape.generate>['value']

const want = fc.record({
  eventsMax: fc.integer({ min: 1, max: 60 }),
  runsMax: fc.integer({ min: 1, max: 30 }),
  laneMax: fc.integer({ min: 1, max: 20 }),
  suspects: fc.boolean(),
  leaseMs: fc.constant(60_000),
  limited: fc.constant(false),
})
const claim = fc.record({
  wants: fc
    .tuple(fc.option(want), want)
    .map(([first, second]) => [
      ...(first ? [{ ...first, subscription: 1 }] : []),
      { ...second, subscription: 2 },
    ]),
  tags: fc.option(fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 })),
  begins: fc.constantFrom('granted' as const, 'reported' as const),
})
/** Those of one round go at once. */
const rounds = fc.array(fc.array(claim, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 })

describe.each(corners)('with the planner $planner', ({ options }) => {
  let db: PostgresDatabase
  beforeAll(async () => {
    db = await openPostgres({ connection: { ...database.connection, options } })
  })
  afterAll(() => db.close())

  test('a claim returns at most what was asked for, and nothing twice', async () => {
    let leased = 0
    const shapes = fc.array(runShape, { minLength: 1, maxLength: 60, size: 'max' })
    const property = fc.asyncProperty(shapes, rounds, async (runs, claims) => {
      await fill(db, runs)
      const seen = new Set<string>()
      for (const round of claims) {
        const answers = round.map(async (asked) => ({ asked, runs: await lease(db, requestOf(asked)) }))
        for (const { asked, runs: got } of await Promise.all(answers)) {
          checkAnswer(asked, got)
          for (const run of got) {
            for (const { event } of run.deliveries) {
              const delivery = `${run.subscription} ${event.id}`
              expect(seen.has(delivery), `${delivery} was leased twice`).toBe(false)
              seen.add(delivery)
            }
          }
        }
      }
      leased += seen.size
    })
    await fc.assert(property, { seed: 20_260_101, numRuns: 12, endOnFailure: true })
    process.stdout.write(`crash: claims (${options || 'default'}): leased ${leased}\n`)
    expect(leased).toBeGreaterThan(0)
  })
})

let tokens = 1
type Claim = ReturnType<typeof claim.generate>['value']

function requestOf({ wants, tags, begins }: Claim): LeaseRequest {
  return { wants, tags, begins, token: tokens++, worker: 1 }
}

function checkAnswer({ wants, tags }: Claim, runs: Awaited<ReturnType<typeof lease>>): void {
  for (const { subscription, eventsMax, laneMax, suspects } of wants) {
    const mine = runs.filter((run) => run.subscription === subscription)
    const deliveries = mine.reduce((sum, run) => sum + run.deliveries.length, 0)
    expect(deliveries, `of ${eventsMax} asked for`).toBeLessThanOrEqual(eventsMax)
    for (const run of mine) {
      if (run.laneKey !== null) expect(run.deliveries.length).toBeLessThanOrEqual(laneMax)
      if (tags !== null)
        expect(run.deliveries[0]?.event.tags?.some((tag) => (tags as string[]).includes(tag))).toBe(true)
      // No gap: whatever was granted came back.
      expect(run.deliveries.every((delivery) => delivery !== undefined)).toBe(true)
    }
    const suspected = mine.filter((run) => run.suspect)
    if (!suspects) expect(suspected).toEqual([])
    if (suspected.length > 0) expect([mine.length, deliveries]).toEqual([1, 1])
  }
  const asked = wants.map(({ subscription }) => subscription)
  expect(runs.filter((run) => !asked.includes(run.subscription))).toEqual([])
}

/** Straight into the tables: shapes that take luck to come about. */
async function fill(db: PostgresDatabase, shapes: readonly RunShape[]): Promise<void> {
  let lastId = 0
  const runs = shapes.map(({ size, suspect, lane, expiring, ...shape }, n) => ({
    ...shape,
    suspect,
    event_ids: Array.from({ length: suspect && !lane ? 1 : size }, () => ++lastId),
    ordering_key: lane ? `lane ${n}` : null,
    expires_at: expiring ? new Date(Date.now() + 30_000) : null,
  }))
  await db.query('truncate posthorn.runs, posthorn.ready_tags, posthorn.events')
  await db.query(
    `with shape as materialized (
      select * from json_to_recordset($1::json) as s(subscription int, event_ids bigint[], ordering_key text,
        tags text[], expires_at timestamptz, suspect boolean)
    ),
    stored as (
      insert into posthorn.events (id, type, payload, tags, ordering_key, owed, created_at)
      select u.id, 't', 'null', s.tags, s.ordering_key, '{}', now()
      from shape s cross join lateral unnest(s.event_ids) as u(id)
    )
    insert into posthorn.runs (subscription, state, event_ids, first_id, ordering_key, position, tags, expires_at, suspect)
    select s.subscription, 'ready', s.event_ids, s.event_ids[1], s.ordering_key, s.event_ids[1], s.tags, s.expires_at,
      s.suspect
    from shape s`,
    [JSON.stringify(runs)],
  )
}
