import pg from 'pg'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Attempt } from '../../src/consume/attempt.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** A process that lives keeps its queue for as long as it takes to move it, whatever holds the move up. */

const hubs = useHubs('memory_moving_held')
const options = { name: 'm', concurrency: 2 } as const

afterEach(() => void vi.restoreAllMocks())

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

type Handle = (event: { payload: unknown }, attempt: Attempt) => Promise<void> | void

/** An owner of a memory queue, and a mover that asks for the queue in the database. Both have this handler. */
async function openBoth(schema: string, handle: Handle, { leaseMs = 30_000 } = {}) {
  const begun: unknown[] = []
  const handler: Handle = (event, attempt) => {
    begun.push(event.payload)
    return handle(event, attempt)
  }
  const owner = await hubs.open({ schema })
  owner.hub.on('t', { ...options, leaseMs, storage: 'memory' }, handler)
  await owner.hub.start()
  const mover = await hubs.open({ schema })
  mover.hub.on('t', { ...options, leaseMs }, handler)
  const client = await connect()
  /** Which process has the queue, and for how long; undefined: it is moved. */
  const claim = async () => {
    const { rows } = await client.query<{ token: string | null; until: Date }>(
      `select token, held_until as until from ${schema}.memory_queues`,
    )
    return rows[0]
  }
  return { owner, mover, begun, client, claim }
}

/** What becomes of statements with this name and one of these values, as they are sent. */
function onStatement(
  name: string,
  answer: (sent: number) => Error | undefined,
  value?: string | null,
): { readonly sent: number } {
  const query = pg.Client.prototype.query
  const count = { sent: 0 }
  vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [statement] = args as [{ name?: string; values?: unknown[] }]
    const isMeant = value === undefined || statement?.values?.map(String).includes(String(value))
    const error = statement?.name?.includes(name) && isMeant ? answer(++count.sent) : undefined
    return error === undefined
      ? (query as (...args: unknown[]) => unknown).apply(this, args)
      : Promise.reject(error)
  } as never)
  return count
}

const diskFull = () => Object.assign(new Error('disk full'), { code: '53100', severity: 'ERROR' })

test('what is under way is not begun a second time while a transaction holds the move of its queue up for longer than a claim lasts', async () => {
  const opened = createSignal()
  const mayCommit = createSignal()
  const mayEnd = createSignal()
  const transaction = await connect()
  const { owner, mover, begun, claim } = await openBoth('transaction', async ({ payload }, attempt) => {
    if (payload === 'slow') return mayEnd.given
    await transaction.query('begin')
    await attempt.completeIn(transaction)
    opened.give()
    await mayCommit.given
    await transaction.query('commit')
  })
  await owner.hub.publishMany(['tx', 'slow'].map((payload) => ({ type: 't', payload, orderingKey: payload })))
  await opened.given
  await eventually('both are under way', () => begun.length === 2)
  const before = await claim()
  const failures: unknown[] = []
  const moved = mover.hub.start().catch((error: unknown) => failures.push(error))
  // Upkeep of any process moves a queue that nobody has.
  const sweep = () => owner.hub.sweep().catch((error: unknown) => failures.push(error))
  await eventually('the owner has kept the queue for longer than a statement may take', async () => {
    await sweep()
    const now = await claim()
    return now?.token !== before?.token || Number(now?.until) > Number(before?.until) + 15_000
  })
  mayCommit.give()
  await moved
  await mover.hub.publish({ type: 't', payload: 'last', orderingKey: 'last' })
  await eventually('the queue goes on', async () => {
    await sweep()
    return begun.includes('last')
  })
  mayEnd.give()
  await owner.drain()
  expect(begun.toSorted()).toEqual(['last', 'slow', 'tx'])
  expect(failures).toEqual([])
})

test('what is under way is not begun a second time while the move of its queue fails for longer than a claim lasts', async () => {
  const mayEnd = createSignal()
  const { owner, mover, begun, claim } = await openBoth('failing', ({ payload }) =>
    payload === 'slow' ? mayEnd.given : undefined,
  )
  await owner.hub.publish({ type: 't', payload: 'slow', orderingKey: 'slow' })
  await eventually('it is under way', () => begun.length === 1)
  const { token } = (await claim()) ?? {}
  const count = onStatement('hold_memory', (sent) => (sent <= 8 ? diskFull() : undefined), token)
  await mover.hub.start()
  await mover.hub.publish({ type: 't', payload: 'last', orderingKey: 'last' })
  await eventually('the queue goes on', () => begun.includes('last'))
  mayEnd.give()
  await mover.drain()
  expect(begun.toSorted()).toEqual(['last', 'slow'])
  expect(count.sent).toBeGreaterThan(8)
})

test('what is under way is told to stop at once when another process has taken its queue while it moved', async () => {
  const stopped = createSignal()
  // So long that nobody would ask about the lease for more than a minute.
  const leaseMs = 600_000
  const { owner, mover, begun, client } = await openBoth(
    'taken',
    async (_, { signal }) => {
      if (begun.length > 1) return
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      stopped.give()
    },
    { leaseMs },
  )
  await owner.hub.publish({ type: 't', payload: 1 })
  await eventually('it is under way', () => begun.length === 1)
  let isTaken = false
  const count = onStatement('hold_memory', () => (isTaken ? undefined : diskFull()))
  const moved = mover.hub.start()
  await eventually('the move has failed', () => count.sent > 0)
  await client.query('update taken.memory_queues set token = null')
  isTaken = true
  let isStopped = false
  void stopped.given.then(() => {
    isStopped = true
  })
  await eventually('it is told to stop', () => isStopped)
  await moved
  await eventually('it is begun again', () => begun.length === 2)
})

test('a start waits for a queue whose row is locked for longer than a statement may take', async () => {
  const { owner, begun, client } = await openBoth('locked', () => undefined)
  const mover = await hubs.open({ schema: 'locked', statementTimeoutMs: 3_000 })
  mover.hub.on('t', options, () => undefined)
  await client.query('begin')
  await client.query('select from locked.memory_queues for update')
  const count = onStatement('claim_left_memory', () => undefined)
  let failure: unknown
  const moved = mover.hub.start().catch((error: unknown) => {
    failure = error
  })
  await eventually('it has waited more than once', () => count.sent > 4 || failure !== undefined)
  await client.query('commit')
  await moved
  expect(failure).toBeUndefined()
  await mover.hub.stop()
  await owner.hub.publish({ type: 't', payload: 1 })
  await eventually('the queue goes on', () => begun.length === 1)
})
