import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a database that is killed loses no acknowledged publish, and nothing settled runs again',
  patience,
  async () => {
    const { violations } = await runScenario('kill-database', {
      seed: 3,
      secs: 4,
      vital: ['outagesThatHitALease', 'acknowledged'],
    })
    expect(violations).toEqual([])
  },
)
