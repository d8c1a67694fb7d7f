import { expect, test } from 'vitest'
import type { Beat, HeldLease } from '../../src/consume/source.ts'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

const answers: [how: string, answer: (beats: readonly Beat[]) => HeldLease[]][] = [
  [
    'fails',
    () => {
      throw new Error('the connection was cut')
    },
  ],
  ['says that the lease is lost', () => []],
  [
    'says that nobody knows',
    (beats) =>
      beats.map(({ run }) => ({
        run,
        renewed: false,
        cancelled: [],
        unknown: { error: new Error('away'), waitMs: 0 },
      })),
  ],
]

test.each(answers)(
  'a renewal that %s after the subscription has ended does not end the process',
  async (_, answer) => {
    const begun = createSignal()
    const mayAnswer = createSignal()
    const answered = createSignal()
    // Nothing of the run begins, so it is forgotten with its subscription.
    const memory = { settlesInMemory: false, mayBegin: () => true, holdsBack: () => true }
    const runs = [leasedRun(1, { memory })]
    const runner = openRunner({
      lease: async () => ({ runs: runs.splice(0), again: false }),
      heartbeat: async (beats) => {
        begun.give()
        await mayAnswer.given
        setImmediate(() => answered.give())
        return answer(beats)
      },
    })
    const share = shareOf(1, 'handler', () => undefined)
    share.refresh({ ...share.subscription, leaseMs: 300 })
    runner.add(share)
    const endsAt = performance.now() + 300
    runner.start()
    await begun.given
    runner.retire(1)
    await eventually('the lease has ended', () => performance.now() > endsAt + 100)
    mayAnswer.give()
    await answered.given
    expect(runner.knownLeases()({ runId: 1, token: 1 })).toBe(false)
  },
)
