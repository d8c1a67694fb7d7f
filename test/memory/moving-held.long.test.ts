import { afterEach, expect, test, vi } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { connect, diskFull, onStatement, openBoth } from './moving-both.ts'

/** A process that lives keeps its queue for as long as it takes to move it, whatever holds the move up. */

const hubs = useHubs('memory_moving_held_long')

afterEach(() => void vi.restoreAllMocks())

test('what is under way is not begun a second time while a transaction holds the move of its queue up for longer than a claim lasts', async () => {
  const opened = createSignal()
  const mayCommit = createSignal()
  const mayEnd = createSignal()
  const transaction = await connect(hubs)
  const { owner, mover, begun, claim } = await openBoth(hubs, 'transaction', async ({ payload }, attempt) => {
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
  const { owner, mover, begun, claim } = await openBoth(hubs, 'failing', ({ payload }) =>
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
