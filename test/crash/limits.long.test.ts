import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test('limits over the whole fleet hold with two processes, and are made use of', patience, async () => {
  const { counts, violations } = await runScenario('limits', { seed: 1, secs: 4 })
  expect(violations).toEqual([])
  expect(counts.processes).toBe(2)
  expect(counts.mostAtOnce).toBeGreaterThan(1)
  expect(counts.mostAtOncePerKey).toBe(2)
})
