import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'a queue that is paused, drained and resumed under load from several processes loses and doubles nothing',
  patience,
  async () => {
    const { counts, violations } = await runScenario('pause-queues', { seed: 3, secs: 0, turns: 2 })
    expect(violations).toEqual([])
    expect(counts.pauses).toBe(1)
    expect(counts.drains).toBe(1)
  },
)
