import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

/** How much a queue may grow by is a matter of time, which a busy machine takes: chaos/full-queue.js is strict. */
test(
  '64 publishers do not get past a full queue, and what is refused leaves no trace',
  patience,
  async () => {
    const { counts, violations } = await runScenario('full-queue', {
      seed: 1,
      secs: 3,
      overshootMs: 4_000,
      vital: ['refused'],
    })
    expect(violations).toEqual([])
    expect(counts.acked).toBeGreaterThanOrEqual(500)
  },
)
