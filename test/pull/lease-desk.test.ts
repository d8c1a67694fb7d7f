import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { Subscription } from '../../src/domain/subscription.ts'
import type { Admitter } from '../../src/engine/admit.ts'
import { LeaseTokens } from '../../src/engine/lease-tokens.ts'
import { GivenLeases } from '../../src/pull/given-leases.ts'
import { LeaseDesk } from '../../src/pull/lease-desk.ts'

/** The places of the callers that each statement finds something for; `null`: the statement fails. */
type Script = (number[] | null)[]

/** A desk whose statements answer as the script says, with as many calls as `callers` at once. */
function ask({ script, callers, gone = [] }: { script: Script; callers: number; gone?: number[] }) {
  const asked: number[] = []
  const once = async (_: unknown, values: readonly unknown[]) => {
    await setImmediate()
    asked.push(String(values[2]).split(',').length)
    const places = script.shift()
    if (places == null) throw new Error('the connection is gone')
    return places.map((place) => {
      const event = [100 + place, 't', 'null', null, 0, null]
      return [place, 7, 1, true, 50 + place, 0, 0, false, null, 60_000, ...event]
    })
  }
  const admitter = { isDue: () => false, admit: async () => ({ moved: 1, busy: false, drained: true }) }
  const tokens = new LeaseTokens()
  const desk = new LeaseDesk({
    db: { schema: 'x', once } as unknown as Database,
    admitter: admitter as unknown as Admitter,
    tokens,
    given: new GivenLeases(),
  })
  const terms = { tags: null, leaseMs: 60_000, begins: 'granted', suspects: true } as const
  const answers = Array.from({ length: callers }, (_, n) =>
    desk.lease({
      ...terms,
      subscription: { no: 0 } as Subscription,
      worker: n,
      workerId: `w${n}`,
      signal: gone.includes(n) ? AbortSignal.abort() : new AbortController().signal,
    }),
  )
  return { answers, asked }
}

test('whoever has got an event keeps it when the next look for the others fails', async () => {
  const { answers } = ask({ script: [[], [1, 2], null], callers: 4 })
  const settled = await Promise.allSettled(answers)
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected'])
})

test('whoever has got an event is answered before the others have', async () => {
  const { answers, asked } = ask({ script: [[], [2], [1]], callers: 2 })
  expect((await answers[1])?.deliveries[0]?.event.id).toBe(102)
  expect(asked).toEqual([2, 2])
  expect((await answers[0])?.deliveries[0]?.event.id).toBe(101)
  expect(asked).toEqual([2, 2, 1])
})

test('nothing is leased for a client that is gone before its turn comes', async () => {
  const { answers, asked } = ask({ script: [[1, 2]], callers: 3, gone: [1] })
  const found = await Promise.all(answers)
  expect(found.map((run) => run?.deliveries[0]?.event.id)).toEqual([101, undefined, 102])
  expect(asked[0]).toBe(2)
})
