import { afterEach, expect, test } from 'vitest'
import {
  PosthornClient,
  type PullWorker,
  type WorkerHandler,
  type WorkerOptions,
} from '../../src/client/index.ts'
import { defineEvents, event } from '../../src/domain/catalogue.ts'
import { useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'

const servers = useServers('client')
const workers: PullWorker[] = []
afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.stop({ graceMs: 100 }))))

const odd = '{"b" : 1.0, "a":12345678901234567890, "a":"\\u0000\\ud800 é", "e":1e400}'

test('an event is published, leased and completed, and its payload survives byte for byte', async () => {
  const { client } = await serve()
  const published = await client.publish({
    title: 'x',
    tags: ['a'],
    payloadText: odd,
    source: { name: 'test' },
  })
  expect(published).toMatchObject({ status: 'PENDING', tags: ['a'], payloadText: odd, replayed: false })
  const [leased] = await client.subscribe({ workerId: 'w', tags: 'a' })
  expect(leased).toMatchObject({ id: published.id, payloadText: odd, attempt: 1, status: 'PROCESSING' })
  if (leased === undefined) throw new Error('nothing was leased')
  expect(await client.start(leased)).toMatchObject({ action: 'STARTED', workerId: 'w' })
  expect(await client.heartbeat(leased)).toMatchObject({ cancelled: false, leaseToken: leased.leaseToken })
  const first = await client.complete(leased, { executionTimeMs: 7, statusCode: 200 })
  expect(first).toMatchObject({ action: 'COMPLETED', executionTimeMs: 7, statusCode: 200 })
  expect(await client.complete(leased, { executionTimeMs: 7, statusCode: 200 })).toEqual(first)
  await expect(client.fail(leased)).rejects.toMatchObject({ status: 409, code: 'LEASE_LOST' })
  const details = await client.event(published.id, { logs: true })
  expect(details).toMatchObject({ status: 'COMPLETED', payloadText: odd, source: { name: 'test' } })
  expect(details.deliveries).toMatchObject([{ subscription: 'work', state: 'completed', workerId: 'w' }])
  expect(details.logs.map(({ action }) => action)).toEqual(['PICKED', 'STARTED', 'COMPLETED'])
  expect(await client.workers()).toContainEqual({
    ...{ workerId: 'w', inFlight: 0, lastSeenAt: expect.any(Date) },
    ...{ stale: false, staleReason: null, staleSince: null },
  })
})

test('the same idempotency key gives the same event', async () => {
  const { client } = await serve()
  const first = await client.publish({ type: 'x', payload: 1 }, { idempotencyKey: 'clé' })
  const again = await client.publish({ type: 'x', payload: 1 }, { idempotencyKey: 'clé' })
  expect([first.replayed, again.replayed, again.id]).toEqual([false, true, first.id])
  const other = client.publish({ type: 'x', payload: 2 }, { idempotencyKey: 'clé' })
  await expect(other).rejects.toMatchObject({ status: 422, code: 'IDEMPOTENCY_MISMATCH' })
})

test('the last failure that is allowed says so', async () => {
  const { client } = await serve()
  await client.publish({ title: 'x', tags: 'a', payload: null, maxRetries: 1 })
  const [leased] = await client.subscribe({ workerId: 'w', tags: 'a' })
  const answer = await client.fail(leased as never, { errorMessage: 'no' })
  expect(answer).toEqual({ retryScheduled: false, retryCount: 1, maxRetries: 1 })
})

test('events are listed page by page, reset and cancelled', async () => {
  const { client } = await serve()
  const events = await client.publishMany(
    Array.from({ length: 5 }, (_, n) => ({ title: 'x', tags: 'a', payload: { n } })),
  )
  const ids = events.map(({ id }) => id)
  const found: number[] = []
  for await (const { id } of client.events({ tags: ['a'], limit: 2 })) found.push(id)
  expect(found).toEqual(ids)
  const [leased] = await client.subscribe({ workerId: 'w', tags: 'a' })
  expect(await client.reset(leased?.id ?? 0, { reason: 'again' })).toMatchObject({
    reset: 1,
    status: 'PENDING',
  })
  expect(await client.cancel(ids[0] ?? 0, { reason: 'no' })).toMatchObject({ cancelled: 1, told: 0 })
  expect(await client.cancelMany({ tags: ['a'] })).toMatchObject({ cancelled: 4, told: 0, more: false })
  const page = await client.listEvents({ status: 'CANCELLED' })
  expect(page).toMatchObject({ total: 5, totalIsEstimate: false, nextCursor: null })
})

test('events are found by what is in their payloads', async () => {
  const { client } = await serve()
  const events = await client.publishMany([1, 2, 3].map((n) => ({ type: 'x', payload: { order: { n } } })))
  const page = await client.listEvents({ createdFrom: new Date(0), payload: { 'order.n': 2 } })
  expect(page.events.map(({ id }) => id)).toEqual([events[1]?.id])
  expect(page).toMatchObject({ total: null, nextCursor: null, searched: expect.any(Object) })
})

test('a subscription is made, changed, paused, resumed and ended', async () => {
  const { client } = await serve()
  const { subscribers } = client
  const made = await subscribers.create({ name: 'audit', via: 'pull', eventTypes: ['order.*'], tags: 'a,b' })
  expect(made).toMatchObject({ name: 'audit', tags: ['a', 'b'], isActive: true, maxRetries: 3 })
  expect(await subscribers.update(made.id, { maxConcurrency: 3 })).toMatchObject({ maxConcurrency: 3 })
  expect(await subscribers.pause(made.id)).toMatchObject({ status: 'paused', isActive: false })
  expect(await subscribers.resume(made.id)).toMatchObject({ status: 'active' })
  expect(await subscribers.get(made.id)).toMatchObject({ eventTypes: ['order.*'] })
  expect((await subscribers.list()).map(({ name }) => name)).toContain('audit')
  await subscribers.delete(made.id)
  await expect(subscribers.get(made.id)).rejects.toMatchObject({ status: 404 })
})

test('a pause reaches a worker: what it has fetched ahead goes back, and nothing begins until the queue goes on', async () => {
  const { client, db, hub, startWorker, completed } = await serve()
  const release = createSignal()
  const began: number[] = []
  const leased = async () => {
    const { rows } = await db.query<{ count: number }>(
      `select coalesce(sum(granted), 0)::int as count from ${db.schema}.runs where state = 'leased'`,
    )
    return rows[0]?.count ?? 0
  }
  await client.publishMany(Array.from({ length: 20 }, () => ({ title: 'x', tags: 'a', payload: 1 })))
  await startWorker({ tags: 'a', concurrency: 2 }, async ({ id }) => {
    began.push(id)
    await release.given
  })
  await eventually('it has fetched ahead', async () => (await leased()) > 2)
  await hub.queues.pause('work')
  await eventually('it holds only what has begun', async () => (await leased()) === 2)
  release.give()
  await eventually('that is completed', async () => (await completed()) === 2)
  expect(began).toHaveLength(2)
  await hub.queues.resume('work')
  await eventually('the rest follows', async () => (await completed()) === 20)
  expect(new Set(began).size).toBe(began.length)
})

test('a heartbeat says that the queue is paused', async () => {
  const { client, hub } = await serve()
  await client.publish({ title: 'x', tags: 'a', payload: 1 })
  const [leased] = await client.subscribe({ workerId: 'w', tags: 'a' })
  if (leased === undefined) throw new Error('nothing was leased')
  expect(await client.heartbeat(leased)).toMatchObject({ held: false })
  await hub.queues.pause('work')
  expect(await client.heartbeat(leased)).toMatchObject({ held: true })
  await hub.queues.drain('work')
  expect(await client.heartbeat(leased)).toMatchObject({ held: false })
})

test('a worker works off a backlog, in order per key', async () => {
  const seen = new Map<string, number[]>()
  const { client, startWorker, completed } = await serve()
  const events = Array.from({ length: 1_500 }, (_, n) => ({
    ...{ title: 'x', tags: 'a', payload: { n } },
    ...(n % 10 === 0 ? { orderingKey: `k${n % 7}` } : {}),
  }))
  await client.publishMany(events.slice(0, 1_000))
  await client.publishMany(events.slice(1_000))
  await startWorker({ tags: 'a' }, ({ orderingKey, payload }) => {
    const key = orderingKey ?? 'none'
    seen.set(key, [...(seen.get(key) ?? []), (payload as { n: number }).n])
  })
  await eventually('all are completed', async () => (await completed()) === 1_500)
  expect([...seen.values()].flat()).toHaveLength(1_500)
  seen.delete('none')
  expect(seen.size).toBe(7)
  for (const numbers of seen.values()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
})

test('a parked worker gets what is published, and what it fails is tried again until it is buried', async () => {
  const events = defineEvents({
    'order.created': event<{ order: number }>(),
    'order.closed': event<{ order: number }>(),
  })
  const { client: any, url, startWorker, hub } = await serve()
  const client = new PosthornClient<typeof events>({ url })
  await any.subscribers.create({
    name: 'audit',
    via: 'pull',
    eventTypes: ['order.*'],
    retryBackoffSeconds: [0, 0],
  })
  const attempts: unknown[] = []
  const warnings: string[] = []
  const handler: WorkerHandler<typeof events> = {
    'order.created': (event, attempt) => {
      attempts.push([event.payload.order, attempt.number, attempt.failures, attempt.subscription])
      throw new Error('no paper')
    },
  }
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined }
  await startWorker({ subscription: 'audit', log }, handler as WorkerHandler)
  await eventually('a poll is parked', () => hub.pull.waiting === 1)
  const { id } = await client.publish({ type: 'order.created', payload: { order: 7 } })
  await eventually('it is buried', async () => (await client.event(id)).status === 'FAILED')
  await eventually('it is told', () => warnings.includes('A delivery was buried'))
  expect(attempts).toEqual([1, 2, 3].map((n) => [7, n, n - 1, 'audit']))
  const { deliveries } = await client.event(id)
  expect(deliveries).toMatchObject([
    { state: 'buried', failures: 3, lastError: expect.stringContaining('no paper') },
  ])
})

test('what a stopping worker has not begun is with another worker at once, uncounted', async () => {
  const { client, startWorker, completed } = await serve()
  await client.publishMany(Array.from({ length: 50 }, (_, n) => ({ title: 'x', tags: 'a', payload: n })))
  const began = createSignal()
  const release = createSignal()
  const first = await startWorker({ tags: 'a', workerId: 'first', concurrency: 1 }, () => {
    began.give()
    return release.given
  })
  await began.given
  const stopping = first.stop()
  release.give()
  await stopping
  expect(await completed()).toBe(1)
  const attempts: number[] = []
  await startWorker({ tags: 'a', workerId: 'second' }, (_, attempt) => void attempts.push(attempt.number))
  await eventually('all are completed', async () => (await completed()) === 50)
  expect(attempts).toEqual(Array(49).fill(1))
})

test('a handler is told when its event is cancelled, and the event ends as cancelled', async () => {
  const { client, startWorker } = await serve()
  const { id } = await client.publish({ title: 'x', tags: 'a', payload: 1 })
  const began = createSignal()
  await startWorker({ tags: 'a', leaseSeconds: 3 }, (_, { signal }) => {
    began.give()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  await began.given
  expect(await client.cancel(id)).toMatchObject({ cancelled: 0, told: 1 })
  await eventually('it is cancelled', async () => (await client.event(id)).status === 'CANCELLED')
})

test('what a worker holds and has not begun when it is cancelled is not begun', async () => {
  const { client, startWorker } = await serve()
  const seen: unknown[] = []
  const first = createSignal()
  const ids: number[] = []
  // One by one, so that each is leased with a token of its own.
  for (const payload of [0, 1, 2, 3]) ids.push((await client.publish({ title: 'x', tags: 'a', payload })).id)
  await startWorker({ tags: 'a', concurrency: 1, leaseSeconds: 600 }, async ({ payload }) => {
    seen.push(payload)
    if (payload === 0) await first.given
  })
  await eventually('the first has begun', () => seen.length === 1)
  const [, next] = ids as [number, number]
  expect(await client.cancel(next)).toMatchObject({ cancelled: 0, told: 1 })
  await eventually('it is cancelled', async () => (await client.event(next)).status === 'CANCELLED')
  expect(seen).toEqual([0])
  first.give()
  await eventually('the rest is done', () => seen.length === 3)
  expect(seen).toEqual([0, 2, 3])
})

test('a handler that was reset away is told, and the event is run again', async () => {
  const { client, startWorker } = await serve()
  const { id } = await client.publish({ title: 'x', tags: 'a', payload: 1 })
  const began = createSignal()
  const attempts: number[] = []
  await startWorker({ tags: 'a', leaseSeconds: 3 }, async (_, { number, signal }) => {
    attempts.push(number)
    if (number > 1) return
    began.give()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  await began.given
  await eventually('it is reported as begun', async () => (await client.event(id)).status === 'PROCESSING')
  await client.reset(id)
  await eventually('it is completed', async () => (await client.event(id)).status === 'COMPLETED')
  expect(attempts).toEqual([1, 2])
})

async function serve() {
  const { hub, url, db } = await servers.open()
  const client = new PosthornClient({ url })
  return {
    hub,
    url,
    db,
    client,
    async completed() {
      const { rows } = await db.query<{ count: number }>(
        `select count(*)::int as count from ${db.schema}.audit where settlement = 'completed'`,
      )
      return rows[0]?.count
    },
    async startWorker(options: WorkerOptions, handler: WorkerHandler) {
      const worker = client.worker({ workerId: 'w', log: false, ...options }, handler)
      workers.push(worker)
      await worker.start()
      return worker
    },
  }
}
