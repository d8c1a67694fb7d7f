import { expect, test } from 'vitest'
import { leasedRun, openRunner, shareOf } from '../support/runner.ts'
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
  const runner = openRunner({
    pollMs: 60_000,
    settled: settled.give,
    async lease() {
      searches++
      if (searches === 1) return { runs: [leasedRun(1)], again: false }
      if (searches === 2) {
        searching.give()
        await searchMayEnd.given
      }
      if (searches === 3) searchedAgain.give()
      return { runs: [], again: false }
    },
    heartbeat: async () => [],
  })
  runner.add(shareOf(1, 'handler', () => handlerMayEnd.given))
  runner.start()
  // Its first search has begun: there will be a second.
  runner.wake()
  await searching.given
  handlerMayEnd.give()
  await settled.given
  searchMayEnd.give()
  await Promise.race([searchedAgain.given, rejectAfter(2_000)])
  expect(searches).toBe(3)
})

function rejectAfter(ms: number): Promise<never> {
  return new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`Nobody searched within ${ms} ms`)), ms),
  )
}
