import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

/** The short one of the scenarios that stop, kill and freeze processes: the others are `*.long.test.ts`. */
test('a process that is killed loses nothing that its memory queue has promised', patience, async () => {
  const { counts, violations } = await runScenario('memory', { seed: 5, secs: 0, every: 8, killsMax: 1 })
  expect(violations).toEqual([])
  expect(counts.kills).toBe(1)
})
