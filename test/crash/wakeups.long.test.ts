import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'no lane stands still with work waiting when publishes race the settlements that empty it',
  patience,
  async () => {
    const { counts, violations } = await runScenario('wakeups', {
      seed: 1,
      secs: 0,
      rounds: 5_000,
      vital: ['publishedWhileTheLaneWasBusy'],
    })
    expect(violations).toEqual([])
    expect(counts.rounds).toBeGreaterThanOrEqual(5_000)
  },
)
