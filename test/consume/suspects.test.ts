import { expect, onTestFinished, test } from 'vitest'
import { Runner } from '../../src/consume/runner.ts'
import { type MakeAttempt, Share } from '../../src/consume/share.ts'
import type { Source } from '../../src/consume/source.ts'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import type { StoredEvent } from '../../src/domain/stored-event.ts'
import { defineSubscription, type Subscription } from '../../src/domain/subscription.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hanging = 1
const healthy = 2

test('after a crash an endpoint that hangs does not hold up what was on its way to the others', async () => {
  const runner = openRunner([hanging, hanging, hanging, healthy])
  const answer = createSignal()
  let arrived = 0
  runner.add(webhook(hanging, () => answer.given))
  runner.add(webhook(healthy, () => arrived++))
  runner.start()
  await eventually('it has arrived', () => arrived === 1)
  expect(runner.underWay).toBe(3)
  answer.give()
})

/** A runner over a source that hands out one suspect per call, to whoever asks for suspects. */
function openRunner(subscriptions: readonly number[]): Runner {
  const waiting = subscriptions.map((subscription, place) => suspect(subscription, place + 1))
  const source: Source = {
    lease: async (wants) => {
      const asked = new Set(wants.filter((want) => want.suspects).map((want) => want.subscription))
      const at = waiting.findIndex((run) => asked.has(run.subscription))
      return { runs: at < 0 ? [] : waiting.splice(at, 1), again: false }
    },
    peek: async () => waiting.length > 0,
    settle: async (settlements) => settlements.map(() => 'settled'),
    heartbeat: async (beats) => beats.map(({ run }) => ({ run, renewed: true, cancelled: [] })),
    release: async () => undefined,
    isolate: async () => undefined,
    completeIn: async () => false,
    isCompleted: async () => false,
  }
  const observe = { settled: () => undefined, lost: () => undefined, trouble: () => undefined }
  const runner = new Runner({ source, pollMs: 10, idlePollMs: 10, observe })
  onTestFinished(() => runner.stop(0))
  return runner
}

function webhook(no: number, attempt: MakeAttempt): Share {
  const definition = defineSubscription('webhook', ['t'], { name: `n${no}` })
  const subscription: Subscription = { ...definition, no, id: `id ${no}`, status: 'active', ramp: null }
  return new Share(subscription, attempt, 10)
}

function suspect(subscription: number, id: number): LeasedRun {
  const leasedUntil = new Date(0)
  const run: LeasedRun = {
    id,
    subscription,
    token: 1,
    laneKey: 'k',
    suspect: true,
    leasedUntil,
    deliveries: [],
  }
  run.deliveries.push({ run, event: { id, payloadText: '{}' } as StoredEvent, attempt: 1, failures: 0 })
  return run
}
