import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'no acknowledged event is lost or runs twice while its lease holds, though workers are killed',
  patience,
  async () => {
    const { counts, violations } = await runScenario('kill-workers', { seed: 11, secs: 5 })
    expect(violations).toEqual([])
    expect(counts.killsThatHitALease).toBeGreaterThan(0)
    expect(counts.takenBack).toBeGreaterThan(0)
    expect(counts.repeats).toBeGreaterThan(0)
  },
)

test(
  'every lane keeps its order through failures, snoozes, burials, batches and kills',
  patience,
  async () => {
    const { counts, violations } = await runScenario('lanes', { seed: 4, secs: 4 })
    expect(violations).toEqual([])
    expect(counts.lanes).toBe(64)
    expect(counts.killsThatHitALease).toBeGreaterThan(0)
    expect(counts.lanesOfSeveralProcesses).toBeGreaterThan(0)
    for (const outcome of ['failed', 'snoozed', 'buried', 'repeats'])
      expect(counts[outcome]).toBeGreaterThan(0)
  },
)
