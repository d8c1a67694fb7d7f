import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a memory queue loses exactly what came after its last persist, wherever its process is killed',
  patience,
  async () => {
    const { counts, violations } = await runScenario('memory', {
      seed: 5,
      secs: 0,
      every: 8,
      killsMax: 8,
      vital: ['killsAtACommit', 'settled'],
    })
    expect(violations).toEqual([])
    expect(counts.kills).toBeGreaterThan(5)
    expect(counts.mostLost).toBeLessThanOrEqual(counts.lostMax as number)
  },
)
