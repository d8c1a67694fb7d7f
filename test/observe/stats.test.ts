import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { readStats } from '../../src/observe/stats.ts'
import { useHubs } from '../support/hub.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'

const hubs = useHubs('stats')
const options = { overdueAfterMs: 1_200_000 }
const opened: PostgresDatabase[] = []
afterAll(() => Promise.all(opened.map((db) => db.close())))

describe('what waits', () => {
  test('is counted from publishing to settling, for each subscription by itself', async () => {
    const { hub, db } = await openHub()
    await hub.subscribe('order.*', { name: 'billing' })
    await hub.subscribe('order.created', { name: 'mail' })
    await hub.publishMany([1, 2, 3].map((payload) => ({ type: 'order.created', payload })))
    await hub.publish({ type: 'order.paid', payload: 4 })
    expect(await queue(db, 'billing')).toMatchObject({ via: 'pull', waiting: 4, leased: 0 })
    expect(await queue(db, 'mail')).toMatchObject({ waiting: 3 })

    const runs = await leaseRuns(hub, 'billing', { limit: 3 })
    expect(await queue(db, 'billing')).toMatchObject({ waiting: 1, leased: 3 })
    await settleRuns(hub, runs, { kind: 'succeeded' })
    expect(await queue(db, 'billing')).toMatchObject({ waiting: 1, leased: 0 })
    expect(await queue(db, 'mail')).toMatchObject({ waiting: 3 })
  })

  test('what waits for its time is told apart, and retries among it', async () => {
    const { hub, db, clock } = await openHub()
    await hub.subscribe('t', { name: 'q', retry: { kind: 'fixed', delayMs: 60_000, failuresMax: 3 } })
    await hub.publish({ type: 't', payload: 1 })
    await hub.publish({ type: 't', payload: 2, runAt: new Date('2999-01-01') })
    await settleRuns(hub, await leaseRuns(hub, 'q'), { kind: 'failed', reason: 'no' })
    await hub.publish({ type: 't', payload: 3 })
    expect(await queue(db, 'q')).toMatchObject({ waiting: 3, delayed: 2, retries: 1 })
    await clock.advance(61_000)
    expect(await queue(db, 'q')).toMatchObject({ waiting: 3, delayed: 1, retries: 0 })
  })

  test('what stands behind in a lane waits, wherever it is kept', async () => {
    const { hub, db } = await openHub()
    await hub.subscribe('t', { name: 'q', retry: { kind: 'fixed', delayMs: 60_000, failuresMax: 3 } })
    const keyed = (payload: number) => ({ type: 't', payload, orderingKey: 'k' })
    await hub.publishMany(Array.from({ length: 70 }, (_, n) => keyed(n)))
    expect(await queue(db, 'q')).toMatchObject({ waiting: 70, leased: 0 })
    const runs = await leaseRuns(hub, 'q', { limit: 10 })
    // The rest is in the same run, in the queue of the lane and at the door.
    await hub.publish(keyed(70))
    expect(await queue(db, 'q')).toMatchObject({ waiting: 70, leased: 1, delayed: 0 })
    await settleRuns(hub, runs, { kind: 'failed', reason: 'no' })
    expect(await queue(db, 'q')).toMatchObject({ waiting: 71, leased: 0, delayed: 1, retries: 1 })
  })

  test('the age of the oldest counts from when it could first have been leased', async () => {
    const { hub, db, clock } = await openHub()
    await hub.subscribe('t', { name: 'q' })
    expect(await queue(db, 'q')).toMatchObject({ oldestSeconds: 0 })
    await hub.publish({ type: 't', payload: 'delayed', runAt: new Date('2999-01-01') })
    await clock.advance(100_000)
    expect(await queue(db, 'q')).toMatchObject({ oldestSeconds: 0 })
    await hub.publish({ type: 't', payload: 'plain' })
    await clock.advance(50_000)
    await expectAge(db, 50)
    // It comes first by its id, but waits since a moment ago.
    await db.query(`update ${db.schema}.runs set due_at = ${db.schema}.clock()`)
    await db.query(`update ${db.schema}.events set run_at = ${db.schema}.clock() where run_at is not null`)
    await clock.advance(10_000)
    await expectAge(db, 60)
    await leaseRuns(hub, 'q', { limit: 2 })
    expect(await queue(db, 'q')).toMatchObject({ oldestSeconds: 0, leased: 2 })
  })

  test('the age counts behind a lane whose head is being worked on', async () => {
    const { hub, db, clock } = await openHub()
    await hub.subscribe('t', { name: 'q' })
    for (const payload of [1, 2]) await hub.publish({ type: 't', payload, orderingKey: 'k' })
    const [run] = await leaseRuns(hub, 'q')
    expect(run?.deliveries).toHaveLength(1)
    await hub.publish({ type: 't', payload: 3, orderingKey: 'k' })
    await clock.advance(20_000)
    await expectAge(db, 20)
  })

  test('a deleted subscription is no longer told of', async () => {
    const { hub, db } = await openHub()
    await hub.subscribe('t', { name: 'gone' })
    await hub.publish({ type: 't', payload: 1 })
    await hub.unsubscribe('gone')
    expect((await readStats(db, options)).queues.map(({ name }) => name)).toEqual(['work'])
  })

  test('a thousand subscriptions are told apart, and the others are summed up', async () => {
    const { hub, db } = await openHub()
    const { no } = await hub.subscribe('t', { name: 'first' })
    await db.query(
      `insert into ${db.schema}.subscriptions (id, name, via, retry, lease_ms)
      select gen_random_uuid(), 'n' || n, via, retry, lease_ms
      from ${db.schema}.subscriptions, generate_series(1, 1001) as n
      where no = ${no}`,
    )
    await db.query(
      `insert into ${db.schema}.runs (subscription, state, event_ids, first_id)
      select no, 'ready', array[1, 2], 1 from ${db.schema}.subscriptions where name in ('n998', 'n999', 'n1001')`,
    )
    const { queues } = await readStats(db, options)
    expect(queues).toHaveLength(1_001)
    expect(queues.at(-2)).toMatchObject({ name: 'n998', waiting: 2 })
    expect(queues.at(-1)).toMatchObject({ name: '(other)', via: null, waiting: 4 })
  })
})

test('dead letters count until they are redriven', async () => {
  const { hub, db } = await openHub()
  await hub.subscribe('t', { name: 'q' })
  await hub.publishMany([1, 2].map((payload) => ({ type: 't', payload })))
  await settleRuns(hub, await leaseRuns(hub, 'q', { limit: 2 }), { kind: 'buried', reason: 'no' })
  expect((await readStats(db, options)).deadLetters).toBe(2)
  const { deadLetters } = await hub.deadLetters()
  await hub.redrive([deadLetters[0]?.id as string])
  expect((await readStats(db, options)).deadLetters).toBe(1)
})

describe('the oldest transaction', () => {
  const client = () => new pg.Client({ ...hubs.connection })
  let holder: pg.Client
  beforeAll(async () => {
    holder = client()
    await holder.connect()
  })
  afterAll(() => holder.end())

  test('is seen while it is open', async () => {
    const { db } = await openHub()
    await holder.query('begin')
    await holder.query('select 1')
    const first = (await readStats(db, options)).oldestTransactionSeconds
    const second = (await readStats(db, options)).oldestTransactionSeconds
    expect(first).toBeGreaterThan(0)
    expect(second).toBeGreaterThan(first)
    await holder.query('commit')
    expect((await readStats(db, options)).oldestTransactionSeconds).toBeLessThan(second)
  })

  test('is not asked for what the role may not see', async () => {
    const { db } = await openHub()
    const role = `stats_${randomBytes(6).toString('hex')}`
    await db.query(`create role ${role}`)
    await db.query(`grant usage on schema ${db.schema} to ${role}`)
    await db.query(`grant select on all tables in schema ${db.schema} to ${role}`)
    await holder.query('begin')
    await holder.query('select 1')
    try {
      expect((await readStats(withRole(db, role), options)).oldestTransactionSeconds).toBe(0)
    } finally {
      await holder.query('commit')
      await db.query(`drop owned by ${role}`)
      await db.query(`drop role ${role}`)
    }
  })
})

test('50,000 that were published one by one are all counted', async () => {
  const { hub, db } = await openHub()
  const { no } = await hub.subscribe('t', { name: 'q' })
  await db.query(
    `insert into ${db.schema}.runs (subscription, state, event_ids, first_id, due_at)
    select ${no}, case when n % 4 = 0 then 'deferred' else 'ready' end::${db.schema}.run_state, array[n], n,
      case when n % 4 = 0 then now() + interval '1 h' end
    from generate_series(1, 50000) as n`,
  )
  expect(await queue(db, 'q')).toMatchObject({ waiting: 50_000, delayed: 12_500 })
})

async function openHub() {
  const schema = `s${randomBytes(6).toString('hex')}`
  const test = await hubs.open({ schema })
  const db = await openPostgres({ connection: hubs.connection, schema, poolMax: 2 })
  opened.push(db)
  return { ...test, db }
}

async function queue(db: Database, name: string) {
  return (await readStats(db, options)).queues.find((one) => one.name === name)
}

/** The real time that a test takes comes on top. */
async function expectAge(db: Database, seconds: number): Promise<void> {
  const found = (await queue(db, 'q'))?.oldestSeconds
  expect(found).toBeGreaterThanOrEqual(seconds)
  expect(found).toBeLessThan(seconds + 9)
}

/** The same database as somebody else sees it. */
function withRole(db: Database, role: string): Database {
  return {
    ...db,
    schema: db.schema,
    transaction: (work, options) =>
      db.transaction(async (tx) => {
        await tx.query(`set local role ${role}`)
        return work(tx)
      }, options),
  }
}
