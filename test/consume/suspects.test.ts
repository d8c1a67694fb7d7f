import { expect, test } from 'vitest'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hanging = 1
const healthy = 2

test('after a crash an endpoint that hangs does not hold up what was on its way to the others', async () => {
  const waiting = [hanging, hanging, hanging, healthy].map((subscription, place) =>
    leasedRun(place + 1, { subscription, suspect: true }),
  )
  // One suspect per call, to whoever asks for suspects.
  const runner = openRunner({
    lease: async (wants) => {
      const asked = new Set(wants.filter((want) => want.suspects).map((want) => want.subscription))
      const at = waiting.findIndex((run) => asked.has(run.subscription))
      return { runs: at < 0 ? [] : waiting.splice(at, 1), again: false }
    },
    peek: async () => waiting.length > 0,
  })
  const answer = createSignal()
  let arrived = 0
  runner.add(shareOf(hanging, 'webhook', () => answer.given))
  runner.add(shareOf(healthy, 'webhook', () => arrived++))
  runner.start()
  await eventually('it has arrived', () => arrived === 1)
  expect(runner.underWay).toBe(3)
  answer.give()
})
