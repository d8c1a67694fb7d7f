import { expect, test } from 'vitest'
import { patience, runScenario } from './support/scenario.ts'

test('one event outlasts an outage that is longer than its retries', patience, async () => {
  const { counts, violations } = await runScenario('webhook-outage', { seed: 1, secs: 0, events: 1 })
  expect(violations).toEqual([])
  expect(counts).toMatchObject({ published: 1, requests: 1 })
})

test(
  'a thousand that waited for an endpoint come in order and at a growing pace, and none is charged',
  patience,
  async () => {
    const { counts, violations } = await runScenario('webhook-outage', {
      seed: 1,
      secs: 0,
      events: 1_000,
      vital: ['refused'],
    })
    expect(violations).toEqual([])
    // While it is away it is left alone.
    expect(counts.refused).toBeLessThan(200)
    expect(counts.mostAtOnce).toBeGreaterThan(4)
  },
)
