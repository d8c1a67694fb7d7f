import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'workers that are told to stop under load leave no lease behind and count no attempt',
  patience,
  async () => {
    const { counts, violations } = await runScenario('stop-workers', {
      seed: 5,
      secs: 0,
      stops: 6,
      vital: ['stopsThatHitALease', 'handedBack'],
    })
    expect(violations).toEqual([])
    expect(counts.stops).toBeGreaterThanOrEqual(6)
  },
)
