import { expect, test } from 'vitest'
import { patience, run } from './driving.ts'

/** The short one: everything at once, with all faults, is in `driver.long.test.ts`. */
test('a short run of the driver breaks no rule, and everything drains by itself', patience, async () => {
  const { violations, counts } = await run({ seed: 2, secs: 2, faults: 'none', only: ['lanes'] })
  expect(violations).toEqual([])
  expect(counts.attempts).toBeGreaterThan(0)
})
