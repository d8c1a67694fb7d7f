import { expect, test } from 'vitest'
import { checkPaging } from '../../src/core/paging.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { type EventFilter, listEvents } from '../../src/events/list-events.ts'
import { type Engine, useEngines } from '../support/engine.ts'
import { unbounded } from '../support/list-bounds.ts'

const openEngine = useEngines('list_events')

async function idsOf({ db }: Engine, filter: EventFilter): Promise<number[]> {
  return (await listEvents(db, filter, unbounded)).events.map(({ id }) => id)
}

async function allPages({ db }: Engine, filter: EventFilter): Promise<number[]> {
  const ids: number[] = []
  let page = await listEvents(db, filter, unbounded)
  for (;;) {
    ids.push(...page.events.map(({ id }) => id))
    if (page.nextCursor === null) return ids
    page = await listEvents(db, { ...filter, cursor: page.nextCursor }, unbounded)
  }
}

test('a list without a filter has every event in order, 20 to a page, with its total', async () => {
  const engine = await openEngine()
  const published = await engine.publish(...new Array(45).fill({ tags: 'a' }))
  const first = await listEvents(engine.db)
  expect(first.events.map(({ id }) => id)).toEqual(published.slice(0, 20))
  expect(first).toMatchObject({ total: 45, totalIsEstimate: false })
  expect(await idsOf(engine, { order: 'desc', limit: 3 })).toEqual(published.slice(-3).reverse())
  expect(await idsOf(engine, { offset: 40 })).toEqual(published.slice(40))
  expect(await allPages(engine, {})).toEqual(published)
  expect(await allPages(engine, { order: 'desc', limit: 7 })).toEqual([...published].reverse())
})

test('the payload stays out of lists', async () => {
  const engine = await openEngine()
  await engine.publish({ tags: 'a', payload: 'x'.repeat(1000) })
  expect(JSON.stringify(await listEvents(engine.db))).not.toContain('xxx')
})

test('filters by tags, type, prefix, ordering key and time hold together', async () => {
  const engine = await openEngine()
  const [mail, push, order, paid] = (await engine.publish(
    { type: 'mail', tags: 'email,eu' },
    { type: 'push', tags: 'phone' },
    { type: 'order.created', orderingKey: 'k', tags: 'eu' },
    { type: 'order.paid', orderingKey: 'k' },
  )) as [number, number, number, number]
  expect(await idsOf(engine, { tags: ['phone', 'email'] })).toEqual([mail, push])
  expect(await idsOf(engine, { type: 'push' })).toEqual([push])
  expect(await idsOf(engine, { type: 'order.*' })).toEqual([order, paid])
  expect(await idsOf(engine, { type: 'orde.*' })).toEqual([])
  expect(await idsOf(engine, { type: '*' })).toEqual([mail, push, order, paid])
  expect(await idsOf(engine, { orderingKey: 'k', order: 'desc' })).toEqual([paid, order])
  expect(await idsOf(engine, { type: 'order.*', tags: ['eu'] })).toEqual([order])

  await engine.moveClock(3_600_000)
  const [later] = await engine.publish({ type: 'later' })
  const found = await getEvent(engine.db, { id: later as number, logs: 'without' })
  const { createdAt } = (found as NonNullable<typeof found>).event
  expect(await idsOf(engine, { createdFrom: createdAt })).toEqual([later])
  expect(await idsOf(engine, { createdTo: createdAt, type: 'order.*' })).toEqual([order, paid])
})

/** A little of everything; returns the ids by status. */
async function mixture(engine: Engine): Promise<Record<string, number[]>> {
  const { db } = engine
  const one = await engine.subscribe('one', ['both', 'one'])
  const two = await engine.subscribe('two', ['both'])
  const take = async (subscription: number) => engine.lease(subscription)
  const ids: Record<string, number[]> = {}

  ids.COMPLETED = await engine.publish({ type: 'both' }, { type: 'one' }, { type: 'nobody' })
  for (const delivery of [...(await take(one)), ...(await take(two))]) await engine.settle(delivery)
  ids.FAILED = await engine.publish({ type: 'one', tags: 'x' }, { type: 'both' })
  for (const delivery of [...(await take(0)), ...(await take(one)), ...(await take(two))]) {
    await engine.settle(delivery, { settlement: 'buried', reason: 'broken' })
  }
  ids.COMPLETED_WITH_ERRORS = await engine.publish({ type: 'both' })
  for (const delivery of await take(one)) await engine.settle(delivery)
  for (const delivery of await take(two))
    await engine.settle(delivery, { settlement: 'buried', reason: 'broken' })
  ids.CANCELLED = await engine.publish({ type: 'one', orderingKey: 'k' })
  for (const delivery of await take(one))
    await engine.settle(delivery, { settlement: 'cancelled', reason: 'stop' })
  ids.EXPIRED = await engine.publish({ type: 'one' })
  await db.query(
    `with gone as (delete from posthorn.runs where event_ids = array[$1::bigint])
    , ended as (insert into posthorn.audit (event_id, subscription, settlement, attempt, finished_at)
      values ($1, $2, 'expired', 0, posthorn.clock()))
    insert into posthorn.dead_letters (id, event_id, subscription, kind, reason, attempts, failures, event_snapshot, buried_at)
    values (posthorn.uuid_v7(), $1, $2, 'expired', 'expired', 0, 0, '{}', posthorn.clock())`.replaceAll(
      'posthorn.',
      `${db.schema}.`,
    ),
    [ids.EXPIRED[0], one],
  )
  ids.PROCESSING = await engine.publish({ type: 'both' }, { type: 'one', orderingKey: 'k' })
  await take(one)
  ids.PENDING = await engine.publish(
    { type: 'both' },
    { type: 'one', orderingKey: 'k' },
    { type: 'one', orderingKey: 'l' },
  )
  return ids
}

test('each status lists exactly its events, alone and with a type, in both orders', async () => {
  const engine = await openEngine()
  const expected = await mixture(engine)
  for (const [status, ids] of Object.entries(expected) as [NonNullable<EventFilter['status']>, number[]][]) {
    const page = await listEvents(engine.db, { status })
    expect([status, page.events.map(({ id }) => id), page.total]).toEqual([status, ids, ids.length])
    expect(page.events.every((event) => event.status === status)).toBe(true)
    expect(await allPages(engine, { status, limit: 1, order: 'desc' })).toEqual([...ids].reverse())
    const both = await listEvents(engine.db, { status, type: 'both' })
    const one = await listEvents(engine.db, { status, type: 'one' })
    const other = await listEvents(engine.db, { status, type: 'nobody' })
    expect(both.total + one.total + other.total).toBe(ids.length)
  }
})

/** `count` events, of which every one that `isDone` has completed; written as publish and settle would. */
async function stock({ db, subscribe }: Engine, count: number, isDone: string): Promise<void> {
  const subscription = await subscribe('stock', ['stock'])
  const fill = (text: string) =>
    db.query(text.replaceAll('posthorn.', `${db.schema}.`), [count, subscription])
  await fill(`insert into posthorn.events (id, type, payload, owed, created_at)
    select n, 'stock', '1', array[$2::int], posthorn.clock() from generate_series(1, $1::int) as n`)
  await fill(`insert into posthorn.audit (event_id, subscription, settlement, attempt, finished_at)
    select n, $2, 'completed', 1, posthorn.clock() from generate_series(1, $1::int) as n where ${isDone}`)
  await fill(`insert into posthorn.runs (subscription, state, event_ids, first_id)
    select $2, 'ready', array_agg(n order by n), min(n) from generate_series(1, $1::int) as n
    where not (${isDone}) group by n / 150`)
  await db.query('analyze')
}

test('a large backlog is walked: what waits behind many finished events is found, in both orders', async () => {
  const engine = await openEngine()
  await stock(engine, 60_000, 'n <= 30000 and n <> 77')
  expect(await idsOf(engine, { status: 'PENDING', limit: 3 })).toEqual([77, 30_001, 30_002])
  expect(await idsOf(engine, { status: 'PENDING', limit: 2, order: 'desc' })).toEqual([60_000, 59_999])
  expect(await idsOf(engine, { status: 'COMPLETED', limit: 2, order: 'desc' })).toEqual([30_000, 29_999])
  const page = await listEvents(engine.db, { status: 'COMPLETED' }, unbounded)
  expect(page.totalIsEstimate).toBe(true)
  expect(page.total).toBeGreaterThan(20_000)
  expect(page.total).toBeLessThan(70_000)
})

test('a page may begin anywhere: the cursor goes on through gaps without losing or doubling an event', async () => {
  const engine = await openEngine()
  await stock(engine, 40_000, 'n % 5000 < 2500')
  const expected = Array.from({ length: 40_000 }, (_, at) => at + 1).filter((n) => n % 5000 >= 2500)
  expect(await allPages(engine, { status: 'PENDING', limit: 1000 })).toEqual(expected)
  expect(await allPages(engine, { status: 'PENDING', limit: 1000, order: 'desc' })).toEqual(
    [...expected].reverse(),
  )
})

test('a total is exact to 10,000 without a filter and to 1,000 with one, and then an estimate', async () => {
  const engine = await openEngine()
  await stock(engine, 10_000, 'n <= 1000')
  const totalOf = async (filter: EventFilter) => {
    const { total, totalIsEstimate } = await listEvents(engine.db, filter, unbounded)
    return { total, totalIsEstimate }
  }
  expect(await totalOf({})).toEqual({ total: 10_000, totalIsEstimate: false })
  expect(await totalOf({ status: 'COMPLETED' })).toEqual({ total: 1000, totalIsEstimate: false })
  const waiting = await totalOf({ status: 'PENDING' })
  expect(waiting.totalIsEstimate).toBe(true)
  expect(waiting.total).toBeGreaterThan(1000)
  await engine.db.query(`select setval('${engine.db.schema}.event_ids', 10000)`)
  await engine.publish({})
  const all = await totalOf({})
  expect(all.totalIsEstimate).toBe(true)
  expect(all.total).toBeGreaterThan(10_000)
})

/** 60,000 events: the even ones of type a with tag t, the odd ones of type b, and the last third tagged as late. */
async function correlated({ db }: Engine): Promise<void> {
  await db.query(
    `insert into ${db.schema}.events (id, type, tags, payload, owed, created_at)
    select n, case when n % 2 = 0 then 'a' else 'b' end,
      nullif(array_remove(array[case when n % 2 = 0 then 't' end, case when n > 40000 then 'late' end], null), '{}'),
      '1', '{}', ${db.schema}.clock()
    from generate_series(1, 60000) as n`,
  )
  await db.query('vacuum analyze')
}

test('conditions that never meet are counted, and those that often do are estimated', async () => {
  const engine = await openEngine()
  await correlated(engine)
  const never = await listEvents(engine.db, { type: 'b', tags: ['t'] }, unbounded)
  expect(never).toMatchObject({ events: [], total: 0, totalIsEstimate: false, nextCursor: null })
  const always = await listEvents(engine.db, { type: 'a', tags: ['t'], limit: 2 }, unbounded)
  expect(always.events.map(({ id }) => id)).toEqual([2, 4])
  expect(always.totalIsEstimate).toBe(true)
  expect(always.total).toBeGreaterThan(20_000)
  expect(always.total).toBeLessThan(40_000)
})

test('what came up only lately is found from either end and from the middle', async () => {
  const engine = await openEngine()
  await correlated(engine)
  const late = { tags: ['late'], limit: 2 }
  expect(await idsOf(engine, late)).toEqual([40_001, 40_002])
  expect(await idsOf(engine, { ...late, order: 'desc' })).toEqual([60_000, 59_999])
  const from = (id: number, filter: EventFilter) =>
    idsOf(engine, { ...filter, cursor: checkPaging('events', filter, /^\d{1,16}$/).cursorAt(id) })
  expect(await from(20_000, late)).toEqual([40_001, 40_002])
  expect(await from(50_000, late)).toEqual([50_001, 50_002])
  expect(await idsOf(engine, { ...late, status: 'COMPLETED' })).toEqual([40_001, 40_002])
  expect(await from(7, { ...late, type: 'a' })).toEqual([40_002, 40_004])
})

test.each([
  [{ limit: 0 }, 'limit'],
  [{ limit: 1001 }, 'limit'],
  [{ offset: 10_001 }, 'offset'],
  [{ offset: -1 }, 'offset'],
  [{ order: 'up' }, 'order'],
  [{ status: 'DONE' }, 'status'],
  [{ cursor: 'nonsense' }, 'cursor'],
  [{ cursor: Buffer.from('events:desc:7').toString('base64url') }, 'order'],
  [{ createdFrom: new Date('never') }, 'createdFrom'],
  [{ type: 'a.*.b' }, 'type pattern'],
] as [EventFilter, string][])('the filter %j is refused by name', async (filter, option) => {
  const engine = await openEngine()
  await expect(listEvents(engine.db, filter)).rejects.toMatchObject({
    code: 'BAD_OPTION',
    details: { option },
  })
})
