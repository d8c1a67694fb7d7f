import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test(
  'publishers on many keys in opposite orders deadlock neither with each other nor with settlements',
  patience,
  async () => {
    const { counts, violations } = await runScenario('opposite-orders', {
      seed: 1,
      secs: 2,
      vital: ['transactions'],
    })
    expect(violations).toEqual([])
    expect(counts.deadlocks).toBe(0)
  },
)

test(
  '64 publishers of several processes with one idempotency key make one event, also if the first rolls back',
  patience,
  async () => {
    const { violations } = await runScenario('one-key', {
      seed: 1,
      secs: 1.5,
      vital: ['rolledBack', 'roundsThatWaitedForTheFirst'],
    })
    expect(violations).toEqual([])
  },
)
