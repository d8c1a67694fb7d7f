import { expect, test } from 'vitest'
import { listWorkers, registerWorker, touchWorker } from '../../src/operations/workers.ts'
import { only, useEngines } from './reading.ts'

const openEngine = useEngines('workers')

test('a name has one number, however often and from however many sides it is registered', async () => {
  const { db } = await openEngine()
  const numbers = await Promise.all(Array.from({ length: 8 }, () => registerWorker(db, 'host:2')))
  expect(new Set(numbers).size).toBe(1)
  expect(await registerWorker(db, 'host:3')).not.toBe(numbers[0])
})

test('a worker that was not heard of for 30 s is stale until it says a word', async () => {
  const engine = await openEngine()
  expect(only(await listWorkers(engine.db))).toMatchObject({ name: 'host:1', inFlight: 0, stale: false })
  await engine.moveClock(31_000)
  expect(only(await listWorkers(engine.db)).stale).toBe(true)
  expect(await touchWorker(engine.db, 'host:1')).toBe(true)
  expect(only(await listWorkers(engine.db)).stale).toBe(false)
  expect(await touchWorker(engine.db, 'nobody:1')).toBe(false)
})

test('a worker has in flight what it has begun, not what it merely owns', async () => {
  const engine = await openEngine()
  await engine.publish({ tags: 'a' }, { tags: 'a' }, { tags: 'a' })
  const [first] = await engine.lease(0)
  expect(only(await listWorkers(engine.db)).inFlight).toBe(3)
  await engine.settle(first as never)
  expect(only(await listWorkers(engine.db)).inFlight).toBe(2)
  await engine.publish({ tags: 'a' })
  await engine.lease(0, { begins: 'reported' })
  expect(only(await listWorkers(engine.db)).inFlight).toBe(2)
})

test('a worker that holds a lapsed lease is stale, even if it was just heard of', async () => {
  const engine = await openEngine()
  await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: 1000 })
  await engine.moveClock(2000)
  await touchWorker(engine.db, 'host:1')
  expect(only(await listWorkers(engine.db))).toMatchObject({ stale: true, inFlight: 1 })
})
