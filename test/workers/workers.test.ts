import { expect, test } from 'vitest'
import { readAtOnce } from '../../src/core/reader.ts'
import { wasClockSetBackStatement } from '../../src/engine/reclaim-statements.ts'
import {
  countWorkers,
  listWorkerPage,
  listWorkers,
  registerWorker,
  touchWorkers,
} from '../../src/workers/workers.ts'
import { only, useEngines } from '../support/engine.ts'

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
  await touchWorkers(engine.db, ['host:1', 'nobody:1'])
  expect(only(await listWorkers(engine.db)).stale).toBe(false)
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
  await touchWorkers(engine.db, ['host:1'])
  expect(only(await listWorkers(engine.db))).toMatchObject({ stale: true, inFlight: 1 })
})

test('it says why a worker is stale and since when: what came first counts', async () => {
  const engine = await openEngine()
  const judge = async () => {
    const { stale, staleReason, staleSince, seenAt } = only(await listWorkers(engine.db))
    return {
      stale,
      staleReason,
      silentSeconds: staleSince && (staleSince.getTime() - seenAt.getTime()) / 1000,
    }
  }
  expect(await judge()).toEqual({ stale: false, staleReason: null, silentSeconds: null })
  await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: 60_000 })
  await engine.moveClock(59_000)
  expect(await judge()).toEqual({ stale: true, staleReason: 'silent', silentSeconds: 30 })
  await touchWorkers(engine.db, ['host:1'])
  expect(await judge()).toMatchObject({ stale: false })
  await engine.moveClock(10_000)
  expect(await judge()).toMatchObject({ stale: true, staleReason: 'lapsed_lease' })
  // By now it is silent as well, but the lease had lapsed before.
  await engine.moveClock(30_000)
  const { staleReason, staleSince } = only(await listWorkers(engine.db))
  const { rows } = await engine.db.query<{ leased_until: Date }>(
    `select leased_until from ${engine.db.schema}.runs`,
  )
  expect([staleReason, staleSince]).toEqual(['lapsed_lease', rows[0]?.leased_until])
})

test('stale workers and those that are alive are listed and counted apart, page by page', async () => {
  const { db, moveClock } = await openEngine()
  for (const name of ['b', 'c']) await registerWorker(db, name)
  await moveClock(31_000)
  for (const name of ['d', 'b']) await registerWorker(db, name)
  const names = async (state: 'alive' | 'stale') => {
    const first = await listWorkerPage(db, { state, limit: 1 })
    const second = await listWorkerPage(db, { state, limit: 1, cursor: first.nextCursor as string })
    expect([first.total, second.total, second.nextCursor]).toEqual([2, 2, null])
    return [...first.workers, ...second.workers].map(({ name }) => name)
  }
  expect(await names('stale')).toEqual(['host:1', 'c'])
  expect(await names('alive')).toEqual(['b', 'd'])
  expect((await listWorkerPage(db)).total).toBe(4)
  await expect(listWorkerPage(db, { state: 'gone' as never })).rejects.toMatchObject({
    details: { option: 'state', value: 'gone' },
  })
})

test('figures count a stale worker for ten minutes, and for as long as it holds something', async () => {
  const engine = await openEngine()
  const count = () => readAtOnce(engine.db, countWorkers)
  await registerWorker(engine.db, 'idle')
  expect(await count()).toEqual({ alive: 2, stale: 0 })
  await engine.moveClock(31_000)
  expect(await count()).toEqual({ alive: 0, stale: 2 })
  await engine.publish({ tags: 'a' })
  await engine.lease(0, { leaseMs: 1_000 })
  await engine.moveClock(570_000)
  expect(await count()).toEqual({ alive: 0, stale: 1 })
  await touchWorkers(engine.db, ['idle'])
  expect(await count()).toEqual({ alive: 1, stale: 1 })
})

test('whether the clock was set back is asked without going through all workers', async () => {
  const { db } = await openEngine()
  await db.query(`insert into ${db.schema}.workers (name, seen_at)
    select 'gone:' || n, now() - interval '1 day' from generate_series(1, 20000) as n`)
  await db.query(`analyze ${db.schema}.workers`)
  const { rows } = await db.query<{ 'QUERY PLAN': string }>(`explain ${wasClockSetBackStatement(db).text}`)
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  expect(plan).toContain('workers_seen_at')
  expect(plan).not.toContain('Seq Scan')
})
