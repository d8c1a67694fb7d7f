import pg from 'pg'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Attempt } from '../../src/consume/attempt.ts'
import { createLogger } from '../../src/observe/log.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** What handlers do, and what goes wrong, while or after their queue is moved to the database. */

const hubs = useHubs('memory_moving_attempts')
const retry = { baseMs: 3_600_000, maxMs: 3_600_000, jitter: 0 }
const options = { name: 'm', concurrency: 1, leaseMs: 5_000, retry } as const

afterEach(() => void vi.restoreAllMocks())

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

type Handle = (payload: unknown, attempt: Attempt) => Promise<void>

/** An owner of a memory queue that handles like this; `move` makes another process ask for the queue in the database. */
async function openOwner(handle: Handle) {
  const { schema } = await hubs.takePlace()
  const lines: Record<string, unknown>[] = []
  const log = createLogger('warn', { write: (line: string) => void lines.push(JSON.parse(line)) })
  const owner = await hubs.open({ schema, log })
  owner.hub.on('t', { ...options, storage: 'memory' }, ({ payload }, attempt) => handle(payload, attempt))
  const settled: string[] = []
  owner.hub.events.on('settled', ({ settlement }) => void settled.push(settlement))
  const seen: unknown[] = []
  const client = await connect()
  const read = async (text: string) => (await client.query(text.replaceAll('$schema', schema))).rows
  const begin = async () => {
    const mover = await hubs.open({ schema })
    mover.hub.on('t', options, ({ payload }) => void seen.push(payload))
    return { mover, moved: mover.hub.start() }
  }
  const move = async () => {
    const { mover, moved } = await begin()
    await moved
    return mover
  }
  return { ...owner, schema, lines, settled, seen, read, begin, move }
}

/** Statements of this file's database that wait for a lock. */
function waiting(which: string): string {
  return `select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and (${which})`
}

/** The next statements with this name fail, as if their connection had been cut. */
function failStatement(name: string, times: number): { readonly failed: number } {
  const query = pg.Client.prototype.query
  const count = { failed: 0 }
  vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [sent] = args as [{ name?: string }]
    if (sent?.name?.includes(name) && count.failed < times) {
      count.failed++
      return Promise.reject(Object.assign(new Error('cut'), { code: '57P01' }))
    }
    return (query as (...args: unknown[]) => unknown).apply(this, args)
  } as never)
  return count
}

test('an attempt can complete in a transaction after its queue was moved, more than once, and nobody else has it meanwhile', async () => {
  const begun = createSignal()
  const moved = createSignal()
  const client = await connect()
  const owner = await openOwner(async (_, attempt) => {
    begun.give()
    await moved.given
    await client.query('begin')
    await attempt.completeIn(client)
    await attempt.completeIn(client)
    await client.query('commit')
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const mover = await owner.move()
  moved.give()
  await eventually('it is settled', () => owner.settled.length > 0)
  await mover.drain()
  expect(owner.settled).toEqual(['complete'])
  expect(owner.seen).toEqual([])
  expect(await owner.read('select settlement from $schema.audit')).toEqual([{ settlement: 'completed' }])
})

test('a transaction that begins to complete before its queue moves, and reaches the database after, completes it', async () => {
  const begun = createSignal()
  const asked = createSignal()
  const moved = createSignal()
  const client = await connect()
  const owner = await openOwner(async (_, attempt) => {
    await client.query('begin')
    const slow = {
      query: async (text: string, values?: unknown[]) => {
        asked.give()
        await moved.given
        return client.query(text, values)
      },
    }
    begun.give()
    await attempt.completeIn(slow as unknown as pg.Client)
    await client.query('commit')
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  await asked.given
  const mover = await owner.move()
  moved.give()
  await eventually('it is settled', () => owner.settled.length > 0)
  await mover.drain()
  expect(owner.settled).toEqual(['complete'])
  expect(owner.seen).toEqual([])
  expect(await owner.read('select 1 from $schema.memory_settled')).toEqual([])
})

test('a transaction that commits while its queue moves has settled its event, for all who are told', async () => {
  const begun = createSignal()
  const mayCommit = createSignal()
  const client = await connect()
  const owner = await openOwner(async (_, attempt) => {
    await client.query('begin')
    await attempt.completeIn(client)
    begun.give()
    await mayCommit.given
    await client.query('commit')
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const { mover, moved } = await owner.begin()
  const waits = waiting("query like '%memory_settled%'")
  await eventually('the move waits', async () => (await owner.read(waits)).length > 0)
  mayCommit.give()
  await moved
  await eventually('it is settled', () => owner.settled.length > 0)
  await mover.drain()
  expect(owner.settled).toEqual(['complete'])
  expect(owner.seen).toEqual([])
  expect(owner.lines.filter(({ msg }) => msg === 'A lease was lost')).toEqual([])
})

test('a failure that waits for its own open transaction while its queue moves is stored with its reason', async () => {
  const begun = createSignal()
  const client = await connect()
  const owner = await openOwner(async (_, attempt) => {
    await client.query('begin')
    await attempt.completeIn(client)
    begun.give()
    throw new Error('not today')
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const { moved } = await owner.begin()
  const waits = waiting(
    "query like '%claim_unsettled%' or query like '%order by m.event_id%on conflict do nothing%'",
  )
  await eventually('the move waits', async () => (await owner.read(waits)).length > 0)
  await client.query('rollback')
  await moved
  await eventually('it is stored', async () => (await owner.read('select 1 from $schema.audit')).length > 0)
  const [{ reason, failures }] = (await owner.read('select reason, failures from $schema.audit')) as [
    { reason: string; failures: number },
  ]
  expect({ reason, failures }).toEqual({ reason: expect.stringContaining('not today'), failures: 1 })
  expect(await owner.read(`select state from $schema.runs`)).toEqual([{ state: 'deferred' }])
})

test.each(['find_adopted_memory', 'forget_memory'])(
  'an attempt goes on and is settled although %s was cut off while its queue moved',
  async (name) => {
    const begun = createSignal()
    const mayEnd = createSignal()
    const owner = await openOwner(async () => {
      begun.give()
      await mayEnd.given
    })
    await owner.hub.start()
    await owner.hub.publish({ type: 't', payload: 1 })
    await begun.given
    const count = failStatement(name, 2)
    const mover = await owner.move()
    expect(count.failed).toBeGreaterThan(0)
    mayEnd.give()
    await eventually('it is settled', () => owner.settled.length > 0)
    await mover.drain()
    expect(owner.settled).toEqual(['complete'])
    expect(owner.seen).toEqual([])
    expect(owner.lines.filter(({ msg }) => String(msg).includes('has taken a memory queue'))).toEqual([])
  },
)

test('an attempt whose run was taken away before anybody knew of it is told as lost, not as completed', async () => {
  const begun = createSignal()
  const mayEnd = createSignal()
  let calls = 0
  const owner = await openOwner(async () => {
    if (++calls > 1) return
    begun.give()
    await mayEnd.given
  })
  await owner.hub.start()
  const { id } = await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const count = failStatement('find_adopted_memory', 2)
  const { mover, moved } = await owner.begin()
  await eventually('a move was not answered', () => count.failed > 0)
  expect(await mover.hub.reset(id, 'test')).toBe(1)
  mayEnd.give()
  await moved
  await mover.drain()
  // What the owner has told is that of another attempt, if it was the one to make it.
  await eventually('it was run again', () => calls - 1 + owner.seen.length === 1)
  expect(owner.settled).toEqual(calls > 1 ? ['complete'] : [])
  expect(owner.lines.filter(({ msg }) => msg === 'A lease was lost')).toHaveLength(1)
})

test('a stop does not wait for a move that is not answered for longer than its grace', async () => {
  const begun = createSignal()
  const owner = await openOwner(async (_, { signal }) => {
    begun.give()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const count = failStatement('hold_memory', Number.POSITIVE_INFINITY)
  const { mover, moved } = await owner.begin()
  await eventually('a move has failed', () => count.failed > 0)
  const stopping = performance.now()
  await owner.hub.stop({ graceMs: 0 })
  // Far more than a stop needs on a busy machine, and less than one that waits for the settlement.
  expect(performance.now() - stopping).toBeLessThan(8_000)
  vi.restoreAllMocks()
  await moved.catch(() => mover.hub.start())
  await mover.drain()
  expect(owner.seen).toEqual([1])
})

test('a stop while nobody knows what was moved hands back what was, uncounted', async () => {
  const begun = createSignal()
  const owner = await openOwner(async (_, { signal }) => {
    begun.give()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const count = failStatement('find_adopted_memory', 3)
  const { mover, moved } = await owner.begin()
  await eventually('a move was not answered', () => count.failed > 0)
  await owner.hub.stop({ graceMs: 0 })
  await moved
  await mover.drain()
  expect(owner.seen).toEqual([1])
  expect(await owner.read('select sum(failures)::int as failures from $schema.audit')).toEqual([
    { failures: 0 },
  ])
})

test('a move that waits for a transaction holds up neither the settlements of other memory queues nor a stop', async () => {
  const begun = createSignal()
  const client = await connect()
  const owner = await openOwner(async (_, attempt) => {
    await client.query('begin')
    await attempt.completeIn(client)
    begun.give()
    await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve))
  })
  const others: unknown[] = []
  owner.hub.on('u', { name: 'other', storage: 'memory' }, ({ payload }) => void others.push(payload))
  await owner.hub.start()
  await owner.hub.publish({ type: 't', payload: 1 })
  await begun.given
  const { moved } = await owner.begin()
  const waits = waiting("query like '%order by m.event_id%'")
  await eventually('the move waits', async () => (await owner.read(waits)).length > 0)
  for (let payload = 1; payload <= 5; payload++) {
    await owner.hub.publish({ type: 'u', payload, orderingKey: 'k' })
    await eventually('the other queue goes on', () => others.length === payload)
  }
  const stopping = performance.now()
  await owner.hub.stop({ graceMs: 200 })
  // Far more than a stop needs on a busy machine, and less than a statement may take.
  expect(performance.now() - stopping).toBeLessThan(8_000)
  await client.query('rollback')
  await moved
})

test('what a queue tells of its depth while it is moved counts nothing twice', async () => {
  const begun = createSignal()
  const owner = await openOwner(async (_, { signal }) => {
    begun.give()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
  await owner.hub.start()
  const [, second] = await owner.hub.publishMany(
    [1, 2, 3].map((payload) => ({ type: 't', payload, orderingKey: `k${payload > 1}` })),
  )
  await begun.given
  // Somebody's transaction holds up what is moved after the attempt: the other lane has not begun.
  const client = await connect()
  await client.query('begin')
  await client.query(
    `insert into ${owner.schema}.memory_settled (subscription, event_id, token)
    select no, $1, 1 from ${owner.schema}.subscriptions where name = 'm'`,
    [second?.id],
  )
  const { moved } = await owner.begin()
  const waits = waiting("query like '%order by m.event_id%'")
  await eventually('the move waits', async () => (await owner.read(waits)).length > 0)
  await owner.hub.memory.persist()
  const depth = `select $schema.queue_depth(no, 100)::int as depth from $schema.subscriptions where name = 'm'`
  expect(await owner.read(depth)).toEqual([{ depth: 3 }])
  await client.query('rollback')
  await moved
})
