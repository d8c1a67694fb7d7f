import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'what a worker does that was frozen past its lease is refused, and its transactions roll back',
  patience,
  async () => {
    const { counts, violations } = await runScenario('freeze-workers', { seed: 2, secs: 3 })
    expect(violations).toEqual([])
    expect(counts.freezesThatHitALease).toBeGreaterThan(0)
    expect(counts.lateSettlementsRefused).toBeGreaterThan(0)
    expect(counts.rolledBack).toBeGreaterThan(0)
  },
)

test(
  'a handler that blocks its process past the lease is never counted besides another',
  patience,
  async () => {
    const { counts, violations } = await runScenario('busy-workers', { seed: 1, secs: 2 })
    expect(violations).toEqual([])
    expect(counts.takenBackWhileAlone).toBeGreaterThan(0)
    expect(counts.acceptedLateWhileAlone).toBeGreaterThan(0)
    expect(counts.refusedWhileTogether).toBeGreaterThan(0)
  },
)
