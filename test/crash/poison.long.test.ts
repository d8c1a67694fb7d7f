import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test('one event of 500 that takes its process down is the only one buried', patience, async () => {
  const { counts, violations } = await runScenario('poison', {
    seed: 7,
    secs: 0,
    vital: ['crashesThatHitALease'],
  })
  expect(violations).toEqual([])
  expect(counts.buried).toBe(1)
})
