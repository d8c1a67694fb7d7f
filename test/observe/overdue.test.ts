import { expect, test } from 'vitest'
import { readAtOnce } from '../../src/core/reader.ts'
import { listDeliveries } from '../../src/deliveries/list-deliveries.ts'
import { countOverdue, OverdueWatch, overdueAttempts } from '../../src/observe/overdue.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('overdue')
const hourMs = 3_600_000
const minute = 60_000

async function overdueIds({ db }: Engine, afterMs: number, limit = 100): Promise<number[]> {
  const attempts = await overdueAttempts(db, { afterMs, limit })
  expect(await readAtOnce(db, (reader) => countOverdue(reader, { afterMs }))).toBeGreaterThanOrEqual(
    attempts.length,
  )
  return attempts.map(({ eventId }) => eventId)
}

test('an attempt is overdue from when it was picked too long ago until it has ended', async () => {
  const engine = await openEngine()
  const [first] = await engine.publish({ tags: 'a' })
  const [delivery] = await engine.lease(0, { leaseMs: hourMs })
  await engine.moveClock(5 * minute)
  const [second] = await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: hourMs })
  expect(await overdueIds(engine, 6 * minute)).toEqual([])
  await engine.moveClock(2 * minute)
  expect(await overdueIds(engine, 6 * minute)).toEqual([first])
  expect(only(await overdueAttempts(engine.db, { afterMs: 6 * minute, limit: 1 }))).toMatchObject({
    ...{ name: 'work', type: 'note', eventId: first, worker: 'host:1' },
  })
  await engine.moveClock(5 * minute)
  expect(await overdueIds(engine, 6 * minute)).toEqual([first, second])
  expect(await overdueIds(engine, 6 * minute, 1)).toEqual([first])
  await engine.settle(delivery as never)
  expect(await overdueIds(engine, 6 * minute)).toEqual([second])
})

test('what is merely owned is no attempt, and is not overdue', async () => {
  const engine = await openEngine()
  await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: hourMs, begins: 'reported' })
  await engine.moveClock(10 * minute)
  expect(await overdueIds(engine, minute)).toEqual([])
})

test('each attempt is found once, and the next attempt of the same delivery again', async () => {
  const engine = await openEngine()
  const watch = new OverdueWatch(engine.db, { overdueAfterMs: minute })
  const look = async () => (await watch.look()).map(({ eventId }) => eventId)
  const [id] = await engine.publish({ tags: 'a' })
  const [delivery] = await engine.lease(0, { leaseMs: hourMs })
  expect(await look()).toEqual([])
  await engine.moveClock(2 * minute)
  expect(await look()).toEqual([id])
  await engine.moveClock(2 * minute)
  expect(await look()).toEqual([])
  await engine.settle(delivery as never, { settlement: 'retried', afterMs: 0, reason: 'x' })
  await engine.moveClock(1000)
  await engine.lease(0, { leaseMs: hourMs })
  expect(await look()).toEqual([])
  await engine.moveClock(2 * minute)
  expect(await look()).toEqual([id])
})

test('what was picked before a moment is listed, and counted, by itself', async () => {
  const engine = await openEngine()
  const [old] = await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: hourMs })
  await engine.moveClock(minute)
  const [young] = await engine.publish(
    { tags: 'a' },
    { tags: 'a', orderingKey: 'k' },
    { tags: 'a', orderingKey: 'k' },
  )
  await engine.lease(0, { leaseMs: hourMs })
  const { deliveries } = await listDeliveries(engine.db, { status: 'delivering', eventId: young as number })
  const pickedBefore = deliveries[0]?.leasedAt as Date
  const list = async (filter: object) => {
    const page = await listDeliveries(engine.db, { pickedBefore, ...filter })
    return [page.total, ...page.deliveries.map(({ eventId }) => eventId)]
  }
  expect(await list({})).toEqual([1, old])
  expect(await list({ subscription: 0, status: 'delivering' })).toEqual([1, old])
  expect(await list({ subscription: 1 })).toEqual([0])
  expect(await list({ eventId: old })).toEqual([1, old])
  expect(await list({ eventId: young })).toEqual([0])
  const later = new Date(pickedBefore.getTime() + 1)
  expect((await list({ pickedBefore: later, limit: 1 })).at(1)).toBe(old)
  expect((await list({ pickedBefore: later })).length).toBeGreaterThan(2)
  await expect(list({ status: 'failed' })).rejects.toMatchObject({ details: { option: 'status' } })
  await expect(list({ pickedBefore: new Date(Number.NaN) })).rejects.toMatchObject({
    details: { option: 'pickedBefore' },
  })
})
