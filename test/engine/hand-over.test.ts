import { expect, test } from 'vitest'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import { type EventInput, parseEvent } from '../../src/domain/event.ts'
import { publish } from '../../src/engine/publish.ts'
import { findSubscription } from '../../src/subscriptions/subscriptions.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('hand_over')

test('where a runner waits, what is published is leased to it at once, just as a lease would give it out', async () => {
  const engine = await openEngine()
  await engine.subscribe('handed', ['note'])
  const other = await engine.subscribe('other', ['note'])
  const event = {
    payload: { a: [1] },
    title: 'Title',
    tags: 'x, y',
    version: '2',
    source: { type: 's', id: '7' },
    timestamp: '2024-02-03T04:05:06.789Z',
    correlationId: 'c',
    causationId: 'd',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  }
  const runs = await publishTo(engine, ['handed'], [event, { ...event, payload: null }])
  const [leased] = await engine.lease(other)

  const run = only(runs)
  expect(run).toMatchObject({ token: 77, laneKey: null, suspect: false })
  expect(run.deliveries.map(({ attempt, failures }) => [attempt, failures])).toEqual([
    [1, 0],
    [1, 0],
  ])
  expect(plain(run.deliveries[0]?.event)).toEqual(plain(leased?.event))
  expect(run.deliveries[1]?.event.payload).toBeNull()
})

test('what was handed over can be settled, and is nobody else’s meanwhile', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('handed', ['note'])
  const run = only(await publishTo(engine, ['handed'], [{ payload: 1 }]))
  expect(await engine.lease(no)).toEqual([])
  await engine.settle(only(run.deliveries))
  const { rows } = await engine.db.query(
    `select settlement::text, attempt, worker from ${engine.db.schema}.audit`,
  )
  expect(rows).toEqual([{ settlement: 'completed', attempt: 1, worker: 1 }])
})

test('nothing is handed over that has to wait: a lane, a delay, a pause, a limit', async () => {
  const engine = await openEngine()
  await engine.subscribe('handed', ['note'])
  const later = new Date(Date.now() + 60_000)
  expect(await publishTo(engine, ['handed'], [{ payload: 1, orderingKey: 'k' }])).toEqual([])
  expect(await publishTo(engine, ['handed'], [{ payload: 1, runAt: later }])).toEqual([])
  const changes = [
    `status = 'paused'`,
    `status = 'active', max_concurrency = 5`,
    'max_concurrency = null, ramp = 1',
  ]
  for (const change of changes) {
    await engine.db.query(`update ${engine.db.schema}.subscriptions set ${change} where name = 'handed'`)
    expect(await publishTo(engine, ['handed'], [{ payload: 1 }])).toEqual([])
  }
})

test('more than fits one run is not handed over', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('handed', ['note'])
  const many = Array.from({ length: 201 }, (_, payload) => ({ payload }))
  expect(await publishTo(engine, ['handed'], many)).toEqual([])
  expect(await engine.lease(no)).toHaveLength(100)
})

function plain(event: unknown): unknown {
  return JSON.parse(JSON.stringify(event))
}

async function publishTo(
  { db }: Engine,
  idle: readonly string[],
  events: readonly Partial<EventInput>[],
): Promise<readonly LeasedRun[]> {
  const subscriptions = []
  for (const name of idle) {
    const subscription = await findSubscription(db, db, name)
    if (subscription !== undefined) subscriptions.push(subscription)
  }
  const { runs } = await publish(db, {
    events: events.map((event) => parseEvent({ type: 'note', ...event } as EventInput)),
    wake: null,
    idle: { subscriptions, token: 77, worker: 1 },
  })
  return runs
}
