import { expect, test } from 'vitest'
import type { Attempt } from '../../src/consume/attempt.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

const tx = { query: async () => ({ rows: [] }) }

/** Two runs of one lease. The second is settled at once, the first does as `work` says. */
function openTwo(laneKey: string | null, work: (attempt: Attempt) => Promise<void>) {
  const about = { token: 77, laneKey }
  const answers = [[leasedRun(1, about), leasedRun(2, about)]]
  const settled: number[] = []
  const runner = openRunner({
    lease: async () => ({ runs: answers.shift() ?? [], again: false }),
    isolate: async ({ run }: LeasedDelivery) => ({
      run: run.laneKey === null ? { ...run, id: 9 } : run,
      mark: '1',
    }),
    completeIn: async () => true,
    isCompleted: async () => true,
    settled: ({ delivery }) => void settled.push(delivery.event.id),
  })
  runner.add(shareOf(1, 'handler', ({ id }, attempt) => (id === 1 ? work(attempt) : undefined)))
  runner.start()
  /** Which of these runs are known under the token of the lease. */
  const known = () => [1, 2, 9].filter((runId) => runner.knownLeases()({ runId, token: 77 }))
  return { known, settled }
}

test('a run that is settled is not known any more, though another of the same lease is busy', async () => {
  const ending = createSignal()
  const { known, settled } = openTwo(null, () => ending.given)
  await eventually('the second is settled', () => settled.length === 1)
  expect(known()).toEqual([1])
  ending.give()
  await eventually('the first is settled', () => settled.length === 2)
  expect(known()).toEqual([])
})

test('an attempt that was moved to a run of its own is not handed back from where a failover puts it', async () => {
  const [completed, ending] = [createSignal(), createSignal()]
  const { known, settled } = openTwo(null, async (attempt) => {
    await attempt.completeIn(tx)
    completed.give()
    await ending.given
  })
  await completed.given
  await eventually('the second is settled', () => settled.length === 1)
  expect(known()).toEqual([1, 2, 9])
  ending.give()
  await eventually('the first is settled', () => settled.length === 2)
  expect(known()).toEqual([])
})

test('a lane that completes in a transaction does not hide another one of the same lease', async () => {
  const [completed, ending] = [createSignal(), createSignal()]
  const { known, settled } = openTwo('k', async (attempt) => {
    await attempt.completeIn(tx)
    completed.give()
    await ending.given
  })
  await completed.given
  await eventually('the second is settled', () => settled.length === 1)
  expect(known()).toEqual([1])
  ending.give()
  await eventually('the first is settled', () => settled.length === 2)
})
