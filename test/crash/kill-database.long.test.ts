import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a database that is killed loses no acknowledged publish, and nothing settled runs again',
  patience,
  async () => {
    const { counts, violations } = await runScenario('kill-database', { seed: 3, secs: 4 })
    expect(violations).toEqual([])
    expect(counts.outagesThatHitALease).toBeGreaterThan(0)
    expect(counts.acknowledged).toBeGreaterThan(0)
  },
)
