import pg from 'pg'
import { expect, test } from 'vitest'
import { PosthornError } from '../../src/errors.ts'
import { useHubs } from '../support/hub.ts'
import { eventually } from '../support/signal.ts'

const hubs = useHubs('queue_depth')

const code = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  return error instanceof PosthornError ? error.code : error
}
const inTransaction = async (act: (tx: pg.Client) => Promise<void>) => {
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  try {
    await client.query('begin')
    await act(client)
    await client.query('commit')
  } finally {
    await client.end()
  }
}
const work = (n: number, more = {}) => ({ title: `task ${n}`, tags: 'mail', payload: n, ...more })

test('a full work queue refuses the whole publish, and nothing of it is stored', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 3, highWatermark: 2 })
  for (const n of [1, 2, 3]) await hub.publish(work(n))
  await clock.advance(1_000)

  expect(await code(hub.publish(work(4)))).toBe('QUEUE_FULL')
  expect(await code(hub.publishMany([{ type: 'a.b', payload: 1 }, work(5)]))).toBe('QUEUE_FULL')
  expect(await code(hub.publish(work(6, { idempotencyKey: 'six' })))).toBe('QUEUE_FULL')
  expect((await hub.listEvents()).total).toBe(3)
  expect((await hub.queues.get('work')).depth).toBe(3)

  const task = await hub.poll()
  await hub.finalize(task?.id as number)
  await clock.advance(1_000)
  // The key of the refused one is free: it left no trace.
  const again = await hub.publish(work(6, { idempotencyKey: 'six', payload: 'other bytes' }))
  expect(again).toMatchObject({ replayed: false, deliveries: 1 })
})

test('a repeat of what was stored before gets its first answer, however full the queue is', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  const first = await hub.publish(work(1, { idempotencyKey: 'one' }))
  await clock.advance(1_000)
  expect(await code(hub.publish(work(2)))).toBe('QUEUE_FULL')
  expect(await hub.publish(work(1, { idempotencyKey: 'one' }))).toMatchObject({
    id: first.id,
    replayed: true,
  })
})

test('two events with one key are both refused, and leave the key free', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(0))
  await clock.advance(1_000)
  const twice = [work(1, { idempotencyKey: 'k' }), work(1, { idempotencyKey: 'k' })]
  expect(await code(hub.publishMany(twice))).toBe('QUEUE_FULL')
  const both = await Promise.all(twice.map((event) => code(hub.publish(event))))
  expect(both).toEqual(['QUEUE_FULL', 'QUEUE_FULL'])
})

test('publishers are told from the high watermark on, and no longer below it', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 10, highWatermark: 2 })
  const told: string[] = []
  hub.events.on('backpressure', ({ queue }) => told.push(queue))
  expect((await hub.publish(work(1))).backpressure).toEqual([])
  await hub.publish(work(2))
  await clock.advance(1_000)
  expect((await hub.publish(work(3))).backpressure).toEqual(['work'])
  expect(told).toEqual(['work'])
  expect((await hub.publish({ type: 'no.work', payload: 1 })).backpressure).toEqual([])

  for (let left = 3; left > 1; left--) await hub.finalize((await hub.poll())?.id as number)
  await clock.advance(1_000)
  expect((await hub.publish(work(4))).backpressure).toEqual([])
})

test('a full queue of a handler holds what comes, and that is alerted once', async () => {
  const { hub, clock } = await hubs.open()
  const alerts: unknown[] = []
  hub.on('posthorn.queue.full', { name: 'alerts' }, (event) => void alerts.push(event.payload))
  await hub.subscribe('order.*', { name: 'orders', maxQueueDepth: 2 })
  await hub.start()
  for (const n of [1, 2, 3]) await hub.publish({ type: 'order.created', payload: n })
  await clock.advance(1_000)
  expect(await hub.publish({ type: 'order.created', payload: 4 })).toMatchObject({ backpressure: ['orders'] })
  await clock.advance(1_000)
  await expect.poll(() => alerts).toMatchObject([{ subscription: 'orders', depth: 2, isRefusing: false }])
  expect((await hub.queues.get('orders')).depth).toBe(4)
})

test('one full queue that refuses turns away those who publish to it, and nobody else', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('order.*', { name: 'orders', maxQueueDepth: 1, onFull: 'refuse' })
  await hub.publish({ type: 'order.created', payload: 1 })
  await clock.advance(1_000)
  const events = Array.from({ length: 64 }, (_, n) => (n % 2 === 0 ? 'order.created' : 'other.thing'))
  const answers = await Promise.all(events.map((type) => code(hub.publish({ type, payload: 1 }))))
  expect(answers.filter((answer) => answer === 'QUEUE_FULL')).toHaveLength(32)
  expect(answers.filter((answer) => answer === undefined)).toHaveLength(32)
})

test('a publish in a transaction that is refused leaves the transaction usable', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  await inTransaction(async (tx) => {
    expect(await code(hub.publish(work(2), { tx }))).toBe('QUEUE_FULL')
    await hub.publish({ type: 'other.thing', payload: 1 }, { tx })
  })
  expect((await hub.listEvents()).total).toBe(2)
})

test('nobody counts while a queue cannot have reached its watermark', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1_000 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  await hub.publishMany(Array.from({ length: 900 }, (_, n) => work(n)))
  await clock.advance(1_000)
  expect((await hub.publish(work(2))).backpressure).toEqual(['work'])
})

test('a limit that is taken away is gone at once', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  expect(await code(hub.publish(work(2)))).toBe('QUEUE_FULL')
  const { config } = await hub.queues.configure('work', { maxQueueDepth: null })
  expect(config.maxQueueDepth).toBeNull()
  await clock.advance(1_000)
  await hub.publish(work(2))
})

test('a limit that is taken away is gone without anybody measuring', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  expect(await code(hub.publish(work(2)))).toBe('QUEUE_FULL')
  await hub.queues.configure('work', { maxQueueDepth: null })
  await hub.publish(work(2))
})

test('a queue that nobody measures any more refuses nothing', async () => {
  const { hub, clock } = await hubs.open({ schema: 'unmeasured' })
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  await client.query(`update unmeasured.queue_pressure set measured_at = measured_at - interval '6 s'`)
  await client.end()
  await hub.publish(work(2))
})

test('upkeep measures by itself', async () => {
  const { hub } = await hubs.open({ upkeep: true })
  await hub.start()
  await hub.queues.configure('work', { maxQueueDepth: 2 })
  await eventually('it is full', async () => (await code(hub.publish(work(1)))) === 'QUEUE_FULL')
})

test('a batch that is refused in a transaction keeps no key, also of events that nobody refused', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  const order = { type: 'order.created', payload: 1, idempotencyKey: 'k1' }
  await inTransaction(async (tx) => {
    expect(await code(hub.publishMany([order, work(2, { idempotencyKey: 'k2' })], { tx }))).toBe('QUEUE_FULL')
  })
  expect(await hub.publish(order)).toMatchObject({ replayed: false })
})

test('a batch of several statements in a transaction is refused as a whole', async () => {
  const { hub, clock } = await hubs.open()
  await hub.queues.configure('work', { maxQueueDepth: 1 })
  await hub.publish(work(1))
  await clock.advance(1_000)
  const many = Array.from({ length: 5_000 }, (_, n) => ({ type: 'order.created', payload: n }))
  await inTransaction(async (tx) => {
    expect(await code(hub.publishMany([...many, work(2)], { tx }))).toBe('QUEUE_FULL')
    await hub.publish({ type: 'other.thing', payload: 1 }, { tx })
  })
  expect((await hub.listEvents()).total).toBe(2)
})

test('a watermark above the limit that a handler comes with is brought down to it', async () => {
  const { hub } = await hubs.open()
  await hub.queues.configure('work', { highWatermark: 8 })
  await hub.subscribe('t', { name: 'n', highWatermark: 8 })
  await hub.subscribe('t', { name: 'n', maxQueueDepth: 5 })
  expect((await hub.queues.get('n')).config).toMatchObject({ maxQueueDepth: 5, highWatermark: 5 })
  await hub.queues.configure('n', { batchSize: 3 })
})

test('a bad limit is refused by its name and value', async () => {
  const { hub } = await hubs.open()
  await expect(hub.queues.configure('work', { maxQueueDepth: 0 })).rejects.toThrow(/maxQueueDepth.*got 0/)
  await expect(hub.queues.configure('work', { maxQueueDepth: 5, highWatermark: 6 })).rejects.toThrow(
    /highWatermark.*got 6/,
  )
  await expect(hub.queues.configure('nowhere', {})).rejects.toThrow('There is no queue nowhere.')
})
