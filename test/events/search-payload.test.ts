import { expect, test } from 'vitest'
import type { WalkBounds } from '../../src/core/list-walk.ts'
import { type PayloadSearch, searchPayload } from '../../src/events/search-payload.ts'
import { type Engine, useEngines } from '../support/engine.ts'
import { noTime, unbounded as unhurried } from '../support/list-bounds.ts'

const openEngine = useEngines('search_payload')
const longAgo = new Date('2000-01-01')

function searchFor(value: string, ...path: string[]): PayloadSearch {
  return { createdFrom: longAgo, paths: [{ path, value }] }
}

async function idsOf({ db }: Engine, search: PayloadSearch): Promise<number[]> {
  return (await searchPayload(db, search)).events.map(({ id }) => id)
}

/** `count` events of type stock, of which every `each`th has `{"hit":true}`. */
async function stock({ db }: Engine, count: number, each: number): Promise<void> {
  await db.query(
    `insert into ${db.schema}.events (id, type, payload, owed, created_at)
    select n, 'stock', case when n % $2::int = 0 then '{"hit":true}' else '{"hit":false}' end, '{}',
      ${db.schema}.clock() + n * interval '1 ms'
    from generate_series(1, $1::int) as n`,
    [count, each],
  )
  await db.query(`select setval('${db.schema}.event_ids', $1)`, [count])
  await db.query('analyze')
}

test('events are found by a value in their payload, without the payload', async () => {
  const engine = await openEngine()
  const [, second] = await engine.publish(
    { payload: { customer: { id: 41 } } },
    { payload: { customer: { id: 42 } } },
    { payload: { customer: 42 } },
  )
  const page = await searchPayload(engine.db, searchFor('42', 'customer', 'id'))
  expect(page.events.map(({ id }) => id)).toEqual([second])
  expect(page.events[0]).toMatchObject({ type: 'note', status: 'COMPLETED' })
  expect(page.events[0]).not.toHaveProperty('payloadText')
  expect(page.searched).toMatchObject({ events: 3, complete: true })
  expect(page.nextCursor).toBeNull()
})

test('a payload that can not be read has no values, and is no error', async () => {
  const engine = await openEngine()
  const [broken, whole] = await engine.publish({ payload: { a: 1 } }, { payload: { a: 1 } })
  await engine.db.query(`update ${engine.db.schema}.events set payload = '{"a":1' where id = $1`, [broken])
  expect(await idsOf(engine, searchFor('1', 'a'))).toEqual([whole])
})

test('every path must match, and the rest of the filter with them', async () => {
  const engine = await openEngine()
  const [, , both, other] = (await engine.publish(
    { type: 'order', payload: { a: 1 } },
    { type: 'order', payload: { b: 2 } },
    { type: 'order', tags: 'eu', payload: { a: 1, b: 2 } },
    { type: 'mail', payload: { a: 1, b: 2 } },
  )) as [number, number, number, number]
  const paths = [
    { path: ['a'], value: '1' },
    { path: ['b'], value: '2' },
  ]
  const search = { createdFrom: longAgo, paths }
  expect(await idsOf(engine, search)).toEqual([both, other])
  expect(await idsOf(engine, { ...search, order: 'desc' })).toEqual([other, both])
  expect(await idsOf(engine, { ...search, type: 'order' })).toEqual([both])
  expect(await idsOf(engine, { ...search, tags: ['eu'] })).toEqual([both])
  expect(await idsOf(engine, { ...search, status: 'PENDING' })).toEqual([both])
  expect(await idsOf(engine, { ...search, status: 'COMPLETED' })).toEqual([other])
  expect(await idsOf(engine, { ...search, status: 'FAILED' })).toEqual([])
})

test('only the time range is searched, and the page tells what was', async () => {
  const engine = await openEngine()
  await engine.publish({ payload: { a: 1 } })
  await engine.moveClock(3_600_000)
  const [later] = await engine.publish({ payload: { a: 1 } })
  const all = await searchPayload(engine.db, searchFor('1', 'a'))
  const { from, to } = all.searched as { from: Date; to: Date }
  expect(to.getTime() - from.getTime()).toBeGreaterThanOrEqual(3_600_000)
  const page = await searchPayload(engine.db, { ...searchFor('1', 'a'), createdFrom: to })
  expect(page.events.map(({ id }) => id)).toEqual([later])
  expect(page.searched).toEqual({ events: 1, from: to, to, complete: true })
  const none = await searchPayload(engine.db, { ...searchFor('1', 'a'), createdTo: longAgo })
  expect(none.searched).toEqual({ events: 0, from: null, to: null, complete: true })
})

/** Page after page, as far as the cursors lead. */
async function searchAll(
  { db }: Engine,
  search: PayloadSearch,
  bounds: WalkBounds,
): Promise<{ found: number[]; events: number; pages: number }> {
  const all = { found: [] as number[], events: 0, pages: 0 }
  let cursor: string | null | undefined
  do {
    const page = await searchPayload(db, { ...search, ...(cursor && { cursor }) }, bounds)
    all.found.push(...page.events.map(({ id }) => id))
    all.events += page.searched.events
    all.pages += 1
    cursor = page.nextCursor
    expect(page.searched.complete).toBe(cursor === null)
  } while (cursor !== null)
  return all
}

test('a full page ends the search, and its cursor goes on behind it', async () => {
  const engine = await openEngine()
  await stock(engine, 3000, 100)
  const search = { ...searchFor('true', 'hit'), limit: 7 }
  const first = await searchPayload(engine.db, search, unhurried)
  expect(first.events.map(({ id }) => id)).toEqual([100, 200, 300, 400, 500, 600, 700])
  expect(first.searched).toMatchObject({ events: 700, complete: false })
  expect(await searchAll(engine, search, unhurried)).toEqual({
    found: Array.from({ length: 30 }, (_, at) => (at + 1) * 100),
    events: 3000,
    pages: 5,
  })
})

test('after so many rows it stops, even with nothing found, and goes on from there', async () => {
  const engine = await openEngine()
  await stock(engine, 5000, 4900)
  for (const order of ['asc', 'desc'] as const) {
    const search = { ...searchFor('true', 'hit'), type: 'stock', order }
    const bounds = { rowsMin: 0, rowsMax: 4000, timeMs: 600_000 }
    const { found, events, pages } = await searchAll(engine, search, bounds)
    expect([found, events]).toEqual([[4900], 5000])
    expect(pages).toBeGreaterThan(1)
  }
})

test('without any time it still comes further with each call', async () => {
  const engine = await openEngine()
  await stock(engine, 200, 150)
  const { found, events, pages } = await searchAll(engine, searchFor('true', 'hit'), noTime)
  expect([found, events]).toEqual([[150], 200])
  expect(pages).toBeGreaterThan(1)
})

test('what the rest of the filter leaves out is passed over without reading its payload', async () => {
  const engine = await openEngine()
  await stock(engine, 10_000, 2)
  const [id] = await engine.publish({ type: 'other', tags: 'mine', payload: { hit: true } })
  for (const filter of [{ type: 'other' }, { tags: ['mine'] }, { status: 'PENDING' } as const]) {
    const page = await searchPayload(engine.db, { ...searchFor('true', 'hit'), ...filter }, unhurried)
    expect(page.events.map((event) => event.id)).toEqual([id])
    expect(page.searched).toMatchObject({ events: 1, complete: true })
  }
})

test('large payloads are read a few at a time, and none is missed', async () => {
  const engine = await openEngine()
  const text = 'x'.repeat(900_000)
  const ids: number[] = []
  for (let at = 0; at < 12; at++) ids.push(...(await engine.publish({ payload: { text, at } })))
  for (const order of ['asc', 'desc'] as const) {
    const all = await searchAll(engine, { ...searchFor('7', 'at'), order }, unhurried)
    expect(all).toEqual({ found: [ids[7]], events: 12, pages: 1 })
  }
})
