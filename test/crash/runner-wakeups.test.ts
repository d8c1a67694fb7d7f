import { expect, test } from 'vitest'
import { Runner } from '../../src/consume/runner.ts'
import { Share } from '../../src/consume/share.ts'
import type { LeaseAnswer, Source } from '../../src/consume/source.ts'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import type { StoredEvent } from '../../src/domain/stored-event.ts'
import { defineSubscription } from '../../src/domain/subscription.ts'
import { createSignal } from '../support/signal.ts'

/**
 * The search for work has just missed what a settlement then makes room for. Polling is a minute away, so only
 * the settlement itself can start the next search.
 */
test('a settlement that comes back during a search which finds nothing starts another search', async () => {
  const searching = createSignal()
  const settled = createSignal()
  const searchedAgain = createSignal()
  const handlerMayEnd = createSignal()
  const searchMayEnd = createSignal()
  let searches = 0
  const nothing: LeaseAnswer = { runs: [], again: false }
  const source: Source = {
    async lease() {
      searches++
      if (searches === 1) return { runs: [runOfOne()], again: false }
      if (searches === 2) {
        searching.give()
        await searchMayEnd.given
      }
      if (searches === 3) searchedAgain.give()
      return nothing
    },
    peek: async () => false,
    settle: async (settlements) => settlements.map(() => 'settled' as const),
    heartbeat: async () => [],
    release: async () => undefined,
    isolate: async () => undefined,
    completeIn: async () => false,
    isCompleted: async () => false,
  }
  const quiet = () => undefined
  const observe = { settled: settled.give, lost: quiet, trouble: quiet }
  const runner = new Runner({ source, pollMs: 60_000, idlePollMs: 60_000, observe })
  const definition = defineSubscription('handler', ['t'], { name: 'n' })
  const subscription = { ...definition, no: 1, id: 'an id', status: 'active', ramp: null } as const
  runner.add(new Share(subscription, () => handlerMayEnd.given, 1))
  runner.start()
  // Its first search has begun: there will be a second.
  runner.wake()
  await searching.given
  handlerMayEnd.give()
  await settled.given
  searchMayEnd.give()
  await Promise.race([searchedAgain.given, rejectAfter(2_000)])
  expect(searches).toBe(3)
  await runner.stop(0)
})

function runOfOne(): LeasedRun {
  const run: LeasedRun = {
    id: 1,
    subscription: 1,
    token: 1,
    laneKey: 'k',
    suspect: false,
    leasedUntil: new Date(),
    deliveries: [],
  }
  run.deliveries.push({ run, event: { id: 1, payloadText: '1' } as StoredEvent, attempt: 1, failures: 0 })
  return run
}

function rejectAfter(ms: number): Promise<never> {
  return new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`Nobody searched within ${ms} ms`)), ms),
  )
}
