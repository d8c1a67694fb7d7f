import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'what a worker does that was frozen past its lease is refused, and its transactions roll back',
  patience,
  async () => {
    const { violations } = await runScenario('freeze-workers', {
      seed: 2,
      secs: 3,
      vital: ['freezesThatHitALease', 'lateSettlementsRefused', 'rolledBack'],
    })
    expect(violations).toEqual([])
  },
)

test(
  'a handler that blocks its process past the lease is never counted besides another',
  patience,
  async () => {
    const { violations } = await runScenario('busy-workers', {
      seed: 1,
      secs: 2,
      vital: ['takenBackWhileAlone', 'acceptedLateWhileAlone', 'refusedWhileTogether'],
    })
    expect(violations).toEqual([])
  },
)
