import { expect, test } from 'vitest'
import type { WalkBounds } from '../../src/core/list-walk.ts'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { type DeliveryFilter, listDeliveries } from '../../src/deliveries/list-deliveries.ts'
import { type DeliveryStatus, deliveryStatuses } from '../../src/domain/delivery-status.ts'
import { type Engine, useEngines } from '../support/engine.ts'
import { oneWindow, unbounded } from '../support/list-bounds.ts'

const openEngine = useEngines('list_deliveries')

/** Every page, until there is none. */
async function listAll(engine: Engine, filter: DeliveryFilter, bounds: WalkBounds, start?: string) {
  const found: string[] = []
  let cursor = start
  let pages = 0
  do {
    const page = await listDeliveries(
      engine.db,
      { ...filter, ...(cursor !== undefined && { cursor }) },
      bounds,
    )
    found.push(...page.deliveries.map(({ id }) => id))
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && ++pages < 1000)
  return { found, pages }
}

/** Deliveries of two subscriptions in every status, in lanes and without. */
async function mixed(engine: Engine): Promise<number[]> {
  const nos = [await engine.subscribe('a', ['note', 'rare']), await engine.subscribe('b', ['note'])]
  const { db } = engine
  for (let round = 0; round < 6; round++) {
    await engine.publish({}, { orderingKey: 'k' }, { orderingKey: 'k' }, { type: 'rare' }, {})
    const expiresAt = new Date('2100-01-01T00:00:00Z')
    await engine.publish({ expiresAt }, { runAt: new Date('2100-01-01T00:00:00Z') })
    for (const no of nos) {
      const leased = await engine.lease(no)
      const settlements = ['completed', 'retried', 'buried', 'completed', 'cancelled'] as const
      for (const [place, delivery] of leased.slice(0, round).entries()) {
        const settlement = settlements[(place + no) % settlements.length] as 'completed'
        await engine.settle(delivery, { settlement, afterMs: 60_000, reason: 'x' }).catch(() => undefined)
      }
    }
  }
  // A gap, as a shard or a deletion leaves.
  await db.query(`select setval('${db.schema}.event_ids', 9000000)`)
  await engine.publish({ type: 'rare' }, {})
  return nos
}

test('each status has exactly the deliveries that the view has, in both orders, page by page', async () => {
  const engine = await openEngine()
  const nos = await mixed(engine)
  const { rows } = await engine.db.query<{ id: string; status: DeliveryStatus; name: string }>(
    `select m.id, m.status, s.name
    from ${engine.db.schema}.messages m
    join ${engine.db.schema}.subscriptions s on s.id = m.subscriber_id
    order by m.event_id, s.no`,
  )
  expect(new Set(rows.map(({ status }) => status)).size).toBeGreaterThanOrEqual(6)
  for (const status of [undefined, ...deliveryStatuses]) {
    for (const subscription of [undefined, ...nos]) {
      const name = subscription === undefined ? undefined : subscription === nos[0] ? 'a' : 'b'
      const expected = rows
        .filter((row) => status === undefined || row.status === status)
        .filter((row) => name === undefined || row.name === name)
        .map(({ id }) => id)
      const filter = {
        limit: 3,
        ...(status !== undefined && { status }),
        ...(subscription !== undefined && { subscription }),
      }
      const label = `${status} ${name}`
      expect([label, (await listAll(engine, filter, unbounded)).found]).toEqual([label, expected])
      const { found } = await listAll(engine, { ...filter, order: 'desc' }, oneWindow)
      expect([label, found]).toEqual([label, [...expected].reverse()])
      const { total, totalIsEstimate } = await listDeliveries(engine.db, filter, unbounded)
      expect([label, total, totalIsEstimate]).toEqual([label, expected.length, false])
    }
  }
})

test('a page that has looked far enough is short, and the next goes on', async () => {
  const engine = await openEngine()
  const rare = await engine.subscribe('rare', ['rare'])
  await engine.subscribe('common', ['note'])
  await engine.publish(...Array.from({ length: 100 }, () => ({})), { type: 'rare' })
  const first = await listDeliveries(engine.db, { subscription: rare }, oneWindow)
  expect(first).toMatchObject({
    deliveries: [],
    nextCursor: expect.any(String),
    searchedTo: expect.any(Date),
    totalIsEstimate: true,
  })
  const { found, pages } = await listAll(engine, { subscription: rare }, oneWindow)
  expect(found).toHaveLength(1)
  expect(pages).toBeGreaterThan(1)
})

test('an offset that a call cannot reach is left to those after it, which skip the rest', async () => {
  const engine = await openEngine()
  const rare = await engine.subscribe('rare', ['rare'])
  await engine.subscribe('common', ['note'])
  for (let round = 0; round < 6; round++) {
    await engine.publish(...Array.from({ length: 39 }, () => ({})), { type: 'rare' })
  }
  const filter = { subscription: rare, limit: 2 }
  const { found: all } = await listAll(engine, filter, unbounded)
  expect(all).toHaveLength(6)
  for (const order of ['asc', 'desc'] as const) {
    const expected = order === 'asc' ? all : [...all].reverse()
    for (let offset = 0; offset <= 7; offset++) {
      const first = await listDeliveries(engine.db, { ...filter, order, offset }, oneWindow)
      const cursor = first.nextCursor ?? undefined
      const rest =
        cursor === undefined ? [] : (await listAll(engine, { ...filter, order }, oneWindow, cursor)).found
      const found = [...first.deliveries.map(({ id }) => id), ...rest]
      expect([order, offset, found]).toEqual([order, offset, expected.slice(offset)])
    }
  }
})

test('a page may end between two deliveries of an event', async () => {
  const engine = await openEngine()
  for (const name of ['a', 'b', 'c']) await engine.subscribe(name, ['note'])
  await engine.publish({}, {}, {})
  for (const order of ['asc', 'desc'] as const) {
    const { deliveries } = await listDeliveries(engine.db, { order }, unbounded)
    expect(deliveries).toHaveLength(9)
    const { found } = await listAll(engine, { order, limit: 2 }, oneWindow)
    expect(found).toEqual(deliveries.map(({ id }) => id))
  }
})

test('an offset of several pages is skipped exactly', async () => {
  const engine = await openEngine()
  await engine.subscribe('s', ['note'])
  const { db } = engine
  await fill(db, 2_600, `'completed'`)
  const idsAt = async (offset: number) =>
    (await listDeliveries(db, { offset, limit: 2 }, unbounded)).deliveries.map(({ eventId }) => eventId)
  expect(await idsAt(999)).toEqual([1000, 1001])
  expect(await idsAt(1000)).toEqual([1001, 1002])
  expect(await idsAt(2599)).toEqual([2600])
  expect(await listDeliveries(db, { offset: 10_000 }, unbounded)).toEqual({
    deliveries: [],
    total: 2600,
    totalIsEstimate: false,
    nextCursor: null,
    searchedTo: null,
  })
})

test('a total is exact up to 10,000, with a filter up to 1,000, and then near', async () => {
  const engine = await openEngine()
  await engine.subscribe('s', ['note'])
  const { db } = engine
  await fill(db, 12_000, `case when i <= 900 then 'cancelled' else 'completed' end`)
  await db.query('analyze')
  const totalOf = async (filter: DeliveryFilter) => {
    const { total, totalIsEstimate } = await listDeliveries(db, filter, unbounded)
    return { total, totalIsEstimate }
  }
  expect(await totalOf({ status: 'cancelled' })).toEqual({ total: 900, totalIsEstimate: false })
  for (const filter of [{}, { subscription: 1 }, { status: 'delivered' as const, subscription: 1 }]) {
    const { total, totalIsEstimate } = await totalOf(filter)
    expect(totalIsEstimate).toBe(true)
    expect(total).toBeGreaterThan(5000)
    expect(total).toBeLessThan(14_000)
  }
})

/** So many events, each owed once and settled. */
async function fill(db: PostgresDatabase, events: number, settlement: string): Promise<void> {
  await db.query(
    `insert into ${db.schema}.events (id, type, payload, owed, created_at)
    select i, 'note', '1', '{1}', now() from generate_series(1, ${events}) as i`,
  )
  await db.query(
    `insert into ${db.schema}.audit (event_id, subscription, settlement, attempt, finished_at)
    select i, 1, (${settlement})::${db.schema}.settlement, 1, now() from generate_series(1, ${events}) as i`,
  )
}
