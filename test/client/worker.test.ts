import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  PosthornClient,
  type PullWorker,
  type WorkerHandler,
  type WorkerOptions,
} from '../../src/client/index.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { calls, type FakeEvent, FakeHub, leasedText, outcomesOf } from './fake-hub.ts'
import { type FakeAnswer, type FakeServer, useFakeServers } from './fake-server.ts'

const serve = useFakeServers()

test('a worker runs the handler for each event and completes it', async () => {
  const { hub, server, worker } = await setUp(
    (event) => void seen.push([event.id, event.payload, event.tags]),
  )
  const seen: unknown[] = []
  hub.publish(...numbered(3))
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 3)
  await worker.stop()
  expect(seen).toEqual([1, 2, 3].map((id) => [id, { n: id }, ['a', 'b']]))
  expect(hub.settled.map(({ event_id, outcome }) => [event_id, outcome])).toEqual(
    [1, 2, 3].map((id) => [id, 'complete']),
  )
  const [asked] = calls(server, '/subscribe')
  expect(Object.fromEntries(asked?.query ?? [])).toEqual({
    ...{ worker_id: 'w', subscription: 'work', tags: 'a', limit: '20', wait: '20', lease: '60' },
    ...{ begin: 'reported', suspects: 'true' },
  })
})

test('what a handler does decides the outcome, and the server decides about retries', async () => {
  const { hub, worker } = await setUp(async (event, attempt) => {
    if (event.id === 1) throw new Error('no paper')
    if (event.id === 2) attempt.snooze(5_000)
    if (event.id === 3) attempt.bury('nobody lives there')
    if (event.id === 4) await attempt.completeIn({ query: async () => ({ rows: [] }) })
  })
  hub.publish(...numbered(4))
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 4)
  await worker.stop()
  const settled = hub.settled.toSorted((a, b) => a.event_id - b.event_id)
  expect(settled).toMatchObject([
    { outcome: 'fail', error_message: expect.stringContaining('no paper') },
    { outcome: 'snooze', after_ms: 5_000 },
    { outcome: 'bury', reason: 'nobody lives there' },
    {
      outcome: 'fail',
      error_message: expect.stringContaining('An attempt over HTTP cannot be completed inside'),
    },
  ])
})

test('each type has its handler, the most specific one, and a type without one is left for others', async () => {
  const seen: string[] = []
  const { hub, worker } = await setUp({
    'order.created': (event) => void seen.push(`created ${event.id}`),
    'order.*': (event) => void seen.push(`other ${event.id}`),
  })
  hub.publish(
    { id: 1, payload: '1', type: 'order.created' },
    { id: 2, payload: '2', type: 'order.closed' },
    { id: 3, payload: '3', type: 'user.created' },
    { id: 4, payload: '4' },
  )
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 4)
  await worker.stop()
  expect(seen).toEqual(['created 1', 'other 2'])
  const rest = hub.settled.filter(({ outcome }) => outcome !== 'complete')
  expect(rest.map(({ event_id, outcome, after_ms }) => [event_id, outcome, after_ms])).toEqual([
    [3, 'snooze', 60_000],
    [4, 'snooze', 60_000],
  ])
})

test('of a lane the next begins only after the one before it is settled', async () => {
  const seen: number[] = []
  const { hub, worker } = await setUp((event) => {
    expect(hub.settled.filter(({ event_id }) => event_id % 2 === event.id % 2)).toHaveLength(
      (event.id - 1) >> 1,
    )
    seen.push(event.id)
  })
  hub.publish(...[1, 2, 3, 4, 5, 6].map((id) => ({ id, payload: '1', orderingKey: `k${id % 2}` })))
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 6)
  await worker.stop()
  expect(seen.filter((id) => id % 2 === 1)).toEqual([1, 3, 5])
  expect(seen.filter((id) => id % 2 === 0)).toEqual([2, 4, 6])
  expect(hub.settled.every(({ outcome }) => outcome === 'complete')).toBe(true)
})

test('settlements go out while a long poll is parked', async () => {
  const release = createSignal()
  const { hub, server, worker } = await setUp(() => release.given)
  hub.publish(...numbered(2))
  await worker.start()
  await eventually('a poll is parked', () => hub.parked === 1)
  const polls = calls(server, '/subscribe').length
  release.give()
  await eventually('both are settled', () => hub.settled.length === 2)
  expect(hub.parked).toBe(1)
  expect(calls(server, '/subscribe')).toHaveLength(polls)
  await worker.stop()
})

test('stopping ends a parked poll, waits for what is under way, and hands back the rest uncounted', async () => {
  const began = createSignal()
  const release = createSignal()
  const { hub, worker } = await setUp(
    () => {
      began.give()
      return release.given
    },
    { concurrency: 1 },
  )
  hub.publish(...numbered(2))
  await worker.start()
  await began.given
  await eventually('a poll is parked', () => hub.parked === 1)
  const stopping = worker.stop()
  await eventually('the poll has hung up', () => hub.hungUp === 1)
  const settled = () => hub.settled.map(({ event_id, outcome }) => [event_id, outcome])
  // What has not begun does not wait for what has.
  await eventually('the rest is handed back', () => hub.settled.length === 1)
  expect(settled()).toEqual([[2, 'release']])
  release.give()
  await stopping
  expect(settled()).toEqual([
    [2, 'release'],
    [1, 'complete'],
  ])
})

test('after the grace period handlers are aborted and their events handed back', async () => {
  const began = createSignal()
  let aborted: unknown
  const { hub, worker } = await setUp((_, { signal }) => {
    began.give()
    return new Promise(() => signal.addEventListener('abort', () => (aborted = signal.reason)))
  })
  hub.publish(...numbered(1))
  await worker.start()
  await began.given
  await worker.stop({ graceMs: 1 })
  expect(aborted).toBeInstanceOf(Error)
  expect(hub.settled).toMatchObject([{ event_id: 1, outcome: 'release' }])
})

test('what takes longer than a moment is reported as begun, under its token', async () => {
  const release = createSignal()
  const { hub, worker } = await setUp(() => release.given, { concurrency: 2 })
  hub.publish(...numbered(3), { id: 9, payload: '9', orderingKey: 'k' })
  await worker.start()
  await eventually('a beat', () => hub.beats.length > 0)
  expect(hub.beats[0]).toEqual({ id: 3, begun: [1, 2] })
  release.give()
  await eventually('all are settled', () => hub.settled.length === 4)
  await worker.stop()
})

test('a handler whose lease is lost is told, and its outcome is dropped', async () => {
  const aborted = createSignal()
  const warnings: unknown[] = []
  const log = {
    warn: (details: object, message: string) => warnings.push([message, details]),
    error: () => undefined,
  }
  const { hub, worker } = await setUp(
    async (event, { signal }) => {
      hub.lose(event.id)
      signal.addEventListener('abort', () => aborted.give())
      await aborted.given
    },
    { log },
  )
  hub.publish(...numbered(1))
  await worker.start()
  await aborted.given
  await eventually('it is told', () => warnings.length === 1)
  await worker.stop()
  expect(hub.settled).toEqual([])
  expect(warnings).toMatchObject([['A lease was lost', { eventId: 1 }]])
})

test('deliveries that were taken out of a lease do not cost the others theirs', async () => {
  const release = createSignal()
  let aborted = 0
  const { hub, worker } = await setUp(
    async (_, { signal }) => {
      for (const id of [4, 5, 6]) hub.lose(id)
      signal.addEventListener('abort', () => aborted++)
      await release.given
    },
    { concurrency: 3 },
  )
  hub.publish(...numbered(6))
  await worker.start()
  await eventually('one was found that is held', () => hub.beats.some(({ id }) => id <= 3))
  release.give()
  await eventually('the others are settled', () => hub.settled.length === 3)
  await worker.stop()
  expect(aborted).toBe(0)
})

test('a heartbeat that is refused for now costs the others nothing, and is not repeated at once', async () => {
  const release = createSignal()
  const aborted: number[] = []
  const { hub, server, worker } = await setUp(
    async (event, { signal }) => {
      signal.addEventListener('abort', () => aborted.push(event.id))
      await release.given
    },
    { leaseSeconds: 3, concurrency: 3 },
  )
  hub.before = ({ path }) => (path === '/events/1/heartbeat' ? { status: 503, body: {} } : undefined)
  hub.publish(...[1, 2, 3].map((id) => ({ id, payload: 'null', orderingKey: `k${id}` })))
  await worker.start()
  await eventually('the first is lost', () => aborted.length > 0)
  expect(aborted).toEqual([1])
  expect(calls(server, '/1/heartbeat').length).toBeLessThan(20)
  release.give()
  await eventually('the others are settled', () => hub.settled.length >= 2)
  await worker.stop()
})

test('a server that has too much to do is given the time it asks for', async () => {
  const release = createSignal()
  const { hub, server, worker } = await setUp(() => release.given, { leaseSeconds: 6, concurrency: 200 })
  hub.before = ({ path }) =>
    path.endsWith('/heartbeat') ? { status: 429, headers: { 'retry-after': '2' }, body: {} } : undefined
  hub.publish(
    ...Array.from({ length: 200 }, (_, n) => ({ id: n + 1, payload: 'null', orderingKey: `k${n}` })),
  )
  await worker.start()
  await eventually('it was asked', () => calls(server, '/heartbeat').length > 0)
  await delay(1_000)
  // Eight at once, for each moment in which some were found to take longer; the rest is not even tried.
  expect(calls(server, '/heartbeat').length).toBeLessThanOrEqual(80)
  release.give()
  await worker.stop()
})

test('run rejects when the server will not have the worker', async () => {
  const { hub, worker } = await setUp(() => undefined)
  hub.before = () => ({ status: 404, body: { code: 'not_found', detail: 'There is no subscription work.' } })
  await expect(worker.run()).rejects.toMatchObject({ status: 404, code: 'NOT_FOUND' })
  hub.before = () => undefined
  await worker.start()
  hub.publish(...numbered(1))
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
})

test('a handler is told when an operator cancels its event, which is then handed back', async () => {
  const { hub, worker } = await setUp(async (event, { signal }) => {
    hub.cancelled.add(event.id)
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  hub.publish(...numbered(1))
  await worker.start()
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
  expect(hub.settled).toMatchObject([{ event_id: 1, outcome: 'release' }])
})

test('an event whose last worker vanished is marked as begun before it begins', async () => {
  const { hub, worker } = await setUp(() => {
    expect(hub.beats).toEqual([{ id: 1, begun: [1] }])
  })
  hub.publish({ id: 1, payload: '1', suspect: true })
  await worker.start()
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
  expect(hub.settled).toMatchObject([{ outcome: 'complete' }])
})

test('the next suspect begins when the one in hand is settled, not when a long poll ends', async () => {
  const { hub, worker } = await setUp(() => undefined)
  let given = 0
  hub.before = ({ path, query, gone }) => {
    if (!path.endsWith('/subscribe')) return undefined
    // A long poll that finds nothing but suspects lasts until the worker hangs up.
    if (query.get('suspects') === 'false') return emptyAfter(gone)
    if (given < 3) hub.publish({ id: ++given, payload: '1', suspect: true })
    return undefined
  }
  await worker.start()
  await eventually('all suspects are settled', () => hub.settled.length === 3)
  await worker.stop()
  expect(hub.settled.map(({ event_id }) => event_id)).toEqual([1, 2, 3])
})

async function emptyAfter(gone: Promise<unknown>): Promise<FakeAnswer> {
  await gone
  return { status: 204 }
}

test('a server that was away for a while gets all settlements, each at least once', async () => {
  const { hub, server, worker } = await setUp(() => undefined)
  let refusals = 0
  hub.before = ({ path }) => (path.endsWith('/settle') && refusals++ < 2 ? 'hang up' : undefined)
  hub.publish(...numbered(3))
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 3)
  await worker.stop()
  expect(calls(server, '/settle').length).toBeGreaterThan(2)
})

test('trouble with leasing is told and does not end the worker', async () => {
  const errors: string[] = []
  const log = { warn: () => undefined, error: (_: object, message: string) => void errors.push(message) }
  const { hub, worker } = await setUp(() => undefined, { log })
  let refusals = 0
  hub.before = ({ path }) =>
    path.endsWith('/subscribe') && refusals++ < 2
      ? { status: 503, body: { code: 'database_unavailable' } }
      : undefined
  hub.publish(...numbered(1))
  await worker.start()
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
  expect(errors).toEqual(['Background task failed: leasing'])
})

test('an outcome that the server answers with "max retries exceeded" is settled', async () => {
  const warnings: string[] = []
  const log = { warn: (_: object, message: string) => void warnings.push(message), error: () => undefined }
  const { hub, server, worker } = await setUp(
    () => {
      throw new Error('no')
    },
    { log },
  )
  hub.before = (request) =>
    request.path.endsWith('/settle')
      ? { body: { results: outcomesOf(request).map(({ event_id }) => ({ event_id, status: 400 })) } }
      : undefined
  hub.publish(...numbered(1))
  await worker.start()
  await eventually('it is told', () => warnings.length === 2)
  await worker.stop()
  expect(warnings).toEqual(['A delivery was buried', 'An attempt failed'])
  expect(calls(server, '/settle')).toHaveLength(1)
})

test('no call asks for or settles more than a thousand, and every event is run once', async () => {
  const ran = new Set<number>()
  const { hub, server, worker } = await setUp((event) => void ran.add(event.id), { concurrency: 2_000 })
  hub.publish(...numbered(10_000))
  await worker.start()
  await eventually('all are settled', () => hub.settled.length === 10_000)
  await worker.stop()
  expect(ran.size).toBe(10_000)
  expect(new Set(hub.settled.map(({ event_id }) => event_id)).size).toBe(10_000)
  const limits = calls(server, '/subscribe').map(({ query }) => Number(query.get('limit')))
  expect(Math.max(...limits)).toBe(1_000)
  expect(
    Math.max(...calls(server, '/settle').map((request) => outcomesOf(request).length)),
  ).toBeLessThanOrEqual(1_000)
})

test('an answer that is slow holds up neither the others nor itself', async () => {
  const slow = createSignal()
  const { hub, worker } = await setUp(() => undefined, { concurrency: 2_000 })
  let asked = 0
  hub.before = async ({ path }) => {
    if (path.endsWith('/subscribe') && asked++ === 0) await slow.given
    return undefined
  }
  hub.publish(...numbered(3_000))
  await worker.start()
  await eventually('the others are settled', () => hub.settled.length === 3_000)
  hub.publish(...numbered(3_500).slice(3_000))
  slow.give()
  await eventually('all are settled', () => hub.settled.length === 3_500)
  await worker.stop()
})

test('what is handed out while the worker stops is handed back', async () => {
  const answered = createSignal()
  const rest = createSignal()
  const { hub, worker } = await setUp(
    () => undefined,
    {},
    async (...request) => {
      const response = await fetch(...request)
      answered.give()
      return response
    },
  )
  hub.before = ({ path }) =>
    path.endsWith('/subscribe')
      ? { body: `[${leasedText({ id: 1, payload: '1' }, 't')}]`, bodyAfter: rest.given }
      : undefined
  hub.leases.set(1, 't')
  await worker.start()
  await answered.given
  const stopping = worker.stop()
  rest.give()
  await stopping
  expect(hub.settled).toMatchObject([{ event_id: 1, outcome: 'release' }])
})

test('the time a poll was parked is no part of the time an event waited', async () => {
  const { hub, worker } = await setUp(() => undefined)
  await worker.start()
  await eventually('a poll is parked', () => hub.parked === 1)
  const parkedAt = performance.now()
  await eventually('it is parked for a while', () => performance.now() - parkedAt > 1_500)
  hub.publish(...numbered(1))
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
  expect(hub.settled[0]?.started_after_ms).toBeLessThan(1_500)
})

test('a poll waits for at most a third of the lease', async () => {
  const { hub, server, worker } = await setUp(() => undefined, { leaseSeconds: 6 })
  await worker.start()
  await eventually('a poll is parked', () => hub.parked === 1)
  await worker.stop()
  expect(calls(server, '/subscribe')[0]?.query.get('wait')).toBe('2')
})

test('a server that does not wait is asked ever more rarely', async () => {
  const { hub, server, worker } = await setUp(() => undefined)
  hub.before = ({ path }) => (path.endsWith('/subscribe') ? { status: 204 } : undefined)
  const begin = performance.now()
  await worker.start()
  await eventually('a dozen polls', () => calls(server, '/subscribe').length === 12)
  expect(performance.now() - begin).toBeGreaterThan(400)
  await worker.stop()
})

test('without prefetch only what can begin at once is leased', async () => {
  const release = createSignal()
  const { hub, server, worker } = await setUp(() => release.given, { concurrency: 3, prefetch: false })
  hub.publish(...numbered(10))
  await worker.start()
  await eventually('three are out', () => hub.leases.size === 3)
  expect(calls(server, '/subscribe').map(({ query }) => query.get('limit'))).toEqual(['3'])
  release.give()
  await eventually('all are settled', () => hub.settled.length === 10)
  await worker.stop()
})

test('run works until its signal, and resolves when all is settled', async () => {
  const began = createSignal()
  const release = createSignal()
  const { hub, worker } = await setUp(() => {
    began.give()
    return release.given
  })
  hub.publish(...numbered(1))
  const stop = new AbortController()
  const running = worker.run(stop.signal)
  await began.given
  stop.abort()
  release.give()
  await running
  expect(hub.settled).toHaveLength(1)
})

test('starting twice is starting once, stopping twice is safe, and a stopped worker can start again', async () => {
  const { hub, worker } = await setUp(() => undefined)
  await Promise.all([worker.start(), worker.start()])
  await eventually('a poll is parked', () => hub.parked === 1)
  await Promise.all([worker.stop(), worker.stop()])
  await worker.stop()
  await eventually('the poll has hung up', () => hub.hungUp === 1)
  await worker.start()
  hub.publish(...numbered(1))
  await eventually('it is settled', () => hub.settled.length === 1)
  await worker.stop()
})

test('a worker is known by its host and process unless told otherwise', () => {
  const client = new PosthornClient({ url: 'http://localhost' })
  expect(client.worker({ tags: 'a' }, () => undefined).workerId).toMatch(new RegExp(`^.+:${process.pid}$`))
})

test('options that make no sense are refused with the value', async () => {
  const client = new PosthornClient({ url: 'http://localhost' })
  const make = (options: object, handler: unknown = () => undefined) =>
    client.worker(options as WorkerOptions, handler as WorkerHandler)
  const tags = 'a'
  expect(() => make({ tags, concurrency: 0 })).toThrow('Expected concurrency to be')
  expect(() => make({ tags, workerId: '' })).toThrow('Expected workerId to be text')
  expect(() => make({ tags }, {})).toThrow('Expected handler to be a function, or functions by type')
  expect(() => make({ tags }, { t: 1 })).toThrow('Expected handler of t to be a function, got 1.')
  expect(() => make({})).toThrow('Expected tags to be given, unless there is a subscription')
  expect(() => make({ tag: 'a' })).toThrow(
    'Expected tag to be left out: a worker has no such option (did you mean tags?)',
  )
  for (const wrong of ['', [], ['a', 1], 7])
    expect(() => make({ tags: wrong })).toThrow('Expected tags to be')
  expect(() => make({ subscription: '' })).toThrow('Expected subscription to be')
  expect(() => make({ tags, prefetch: 'no' })).toThrow('Expected prefetch to be true or false')
  await expect(make({ tags }).stop({ graceMs: Number.POSITIVE_INFINITY })).rejects.toThrow(
    'Expected graceMs to be',
  )
})

interface Stage {
  readonly hub: FakeHub
  readonly server: FakeServer
  readonly worker: PullWorker
}

async function setUp(
  handler: WorkerHandler,
  options: WorkerOptions = {},
  send: typeof fetch = fetch,
): Promise<Stage> {
  const hub = new FakeHub()
  const server = await serve(hub.respond)
  const client = new PosthornClient({ url: server.url, fetch: send })
  const worker = client.worker({ workerId: 'w', tags: 'a', log: false, ...options }, handler)
  return { hub, server, worker }
}

function numbered(count: number): FakeEvent[] {
  return Array.from({ length: count }, (_, i) => ({ id: i + 1, payload: `{"n":${i + 1}}` }))
}
