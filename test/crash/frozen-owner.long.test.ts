import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a frozen owner of a memory queue begins nothing that its successor runs, and its transactions roll back',
  patience,
  async () => {
    const { counts, violations } = await runScenario('frozen-owner', {
      seed: 3,
      secs: 0,
      vital: ['refusedInTransaction'],
    })
    expect(violations).toEqual([])
    expect(counts.freezes).toBe(2)
    expect(counts.takenOver).toBe(2)
  },
)
