import { expect, test } from 'vitest'
import { lease } from '../../src/engine/lease.ts'
import { useEngines } from '../support/engine.ts'

const openEngine = useEngines('lease_many')

test('of very many subscriptions each gets its own, oldest first, and those that are paused nothing', async () => {
  const engine = await openEngine()
  const { db } = engine
  const subscriptions: number[] = []
  for (let n = 0; n < 60; n++) subscriptions.push(await engine.subscribe(`s${n}`, [`kind.${n % 20}`]))
  const ids = await engine.publish(...Array.from({ length: 40 }, (_, n) => ({ type: `kind.${n % 20}` })))
  await db.query(`update ${db.schema}.subscriptions set status = 'paused' where no = $1`, [subscriptions[0]])
  const runs = await lease(db, {
    wants: subscriptions.map((subscription) => ({
      ...{ subscription, eventsMax: 10, runsMax: 10, laneMax: 1, suspects: true },
      ...{ leaseMs: 1_000, limited: false },
    })),
    ...{ token: 7, worker: 1, begins: 'reported', tags: null },
  })
  const leased = new Map(subscriptions.map((no) => [no, [] as number[]]))
  for (const run of runs) {
    leased.get(run.subscription)?.push(...run.deliveries.map(({ event }) => event.id))
  }
  const expected = subscriptions.map((no, n) => [no, n === 0 ? [] : [ids[n % 20], ids[20 + (n % 20)]]])
  expect([...leased]).toEqual(expected)
})
