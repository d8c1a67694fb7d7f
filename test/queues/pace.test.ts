import pg from 'pg'
import { expect, test } from 'vitest'
import { Share } from '../../src/consume/share.ts'
import { defineQueue } from '../../src/domain/queue-config.ts'
import { defineSubscription } from '../../src/domain/subscription.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('queue_pace')

const shareWith = (options: object) =>
  new Share(
    {
      ...defineSubscription('handler', ['t'], { name: 'n', ...options }),
      ...{ no: 1, id: 'n', status: 'active', ramp: null },
    },
    () => undefined,
    100,
  )

test('no lease brings more than a batch', () => {
  const wanting = { now: 0, suspects: true, charsMax: 1_000_000 }
  expect(shareWith({ batchSize: 7 }).want(wanting)).toMatchObject({ eventsMax: 7, laneMax: 7 })
  expect(shareWith({}).want(wanting)?.eventsMax).toBeGreaterThan(7)
})

test('what has taken something rests for the processing interval', () => {
  const share = shareWith({ batchSize: 5, processingInterval: 1_000 })
  const wanting = { suspects: true, charsMax: 1_000_000 }
  expect(share.want({ now: 50, ...wanting })).toBeDefined()
  const run = { id: 1, subscription: 1, token: 1, laneKey: null, suspect: false, leasedUntil: new Date() }
  share.take({
    run: { ...run, deliveries: [] },
    ...{ lane: false, leasedAt: 100, leasedAtMs: 0, holdsUntil: 1e9, renewAt: 1e9, waiting: [], underWay: 0 },
    ...{ cancelled: [], goesBack: false },
  })
  expect(share.want({ now: 600, ...wanting })).toBeUndefined()
  expect(share.restMs(600)).toBe(500)
  expect(share.want({ now: 1_100, ...wanting })).toBeDefined()
})

test('a queue with a batch size and an interval is worked off to its end', async () => {
  const { hub, drain } = await hubs.open()
  const handled: unknown[] = []
  const options = { name: 'slow', batchSize: 4, processingInterval: 100, concurrency: 50 }
  hub.on('t', options, ({ payload }) => void handled.push(payload))
  await hub.start()
  const payloads = Array.from({ length: 12 }, (_, n) => n)
  await hub.publishMany(payloads.map((payload) => ({ type: 't', payload })))
  await expect.poll(() => handled).toEqual(payloads)
  await drain()
})

test('what an operator has set stays, and what a handler says counts', async () => {
  const first = await hubs.open({ schema: 'said' })
  first.hub.on('t', { name: 'n', batchSize: 5 }, () => undefined)
  await first.hub.start()
  const { config } = await first.hub.queues.configure('n', { maxQueueDepth: 9, batchSize: 6 })
  expect(config).toEqual({
    ...defineQueue({}),
    maxQueueDepth: 9,
    highWatermark: 8,
    batchSize: 6,
    onFull: 'hold',
  })
  await first.hub.stop()
  const second = await hubs.open({ schema: 'said' })
  second.hub.on('t', { name: 'n', batchSize: 5 }, () => undefined)
  await second.hub.start()
  expect((await second.hub.queues.get('n')).config).toMatchObject({ maxQueueDepth: 9, batchSize: 5 })
})

test('the rate of a queue falls while nothing is done, for however long', async () => {
  const { hub, clock } = await hubs.open({ schema: 'rate' })
  const act = async () => {
    await hub.publish({ title: 'task', tags: 'mail', payload: 1 })
    await hub.finalize((await hub.poll())?.id as number)
  }
  const rate = async () => {
    const { rows } = await client.query(
      'select ended_per_second from rate.queue_totals where subscription = 0',
    )
    return rows[0].ended_per_second as number
  }
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  try {
    await act()
    await clock.advance(1_000)
    for (let n = 0; n < 5; n++) await act()
    await clock.advance(1_000)
    const busy = await rate()
    expect(busy).toBeGreaterThan(0)
    await clock.advance(60_000)
    expect(await rate()).toBeLessThan(busy / 2)
    await clock.advance(30 * 86_400_000)
    expect(await rate()).toBeLessThan(1e-6)
    await act()
    await clock.advance(1_000)
    expect((await hub.queues.get('work')).totals.processed).toBe(7)
  } finally {
    await client.end()
  }
})

test('a stop records how far the queues have come', async () => {
  const { hub, drain } = await hubs.open({ schema: 'stopped' })
  hub.on('t', { name: 'n' }, () => undefined)
  await hub.start()
  await hub.publishMany([1, 2, 3].map((n) => ({ type: 't', payload: n })))
  await drain()
  await hub.stop()
  const later = await hubs.open({ schema: 'stopped' })
  const { checkpoints } = await later.hub.queues.checkpoints('n')
  expect(checkpoints).toMatchObject([{ queue: 'n', checkpointId: 3, eventCount: 3, reason: 'stop' }])
})
