import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'no acknowledged event is lost or runs twice while its lease holds, though workers are killed',
  patience,
  async () => {
    const { violations } = await runScenario('kill-workers', {
      seed: 11,
      secs: 5,
      vital: ['killsThatHitALease', 'takenBack', 'repeats'],
    })
    expect(violations).toEqual([])
  },
)

test(
  'every lane keeps its order through failures, snoozes, burials, batches and kills',
  patience,
  async () => {
    const { counts, violations } = await runScenario('lanes', {
      seed: 4,
      secs: 4,
      vital: ['killsThatHitALease', 'lanesOfSeveralProcesses', 'failed', 'snoozed', 'buried', 'repeats'],
    })
    expect(violations).toEqual([])
    expect(counts.lanes).toBe(64)
  },
)
