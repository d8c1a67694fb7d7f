import { afterEach, expect, test, vi } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { diskFull, onStatement, openBoth, options } from './moving-both.ts'

/** A process that lives keeps its queue for as long as it takes to move it, whatever holds the move up. */

const hubs = useHubs('memory_moving_held')

afterEach(() => void vi.restoreAllMocks())

test('what is under way is told to stop at once when another process has taken its queue while it moved', async () => {
  const stopped = createSignal()
  // So long that nobody would ask about the lease for more than a minute.
  const leaseMs = 600_000
  const { owner, mover, begun, client } = await openBoth(
    hubs,
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
  const { owner, begun, client } = await openBoth(hubs, 'locked', () => undefined)
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
