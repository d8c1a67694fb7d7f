import { expect, test } from 'vitest'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import type { Subscription } from '../../src/domain/subscription.ts'
import { foldLanes } from '../../src/retention/audit-statements.ts'
import { WebhookNotes } from '../../src/webhooks/send/webhook-notes.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('fold_lanes')

/** Numbers a leased delivery, as is done before its webhook is sent, and says its place in its lane. */
async function placeOf({ db }: Engine, delivery: LeasedDelivery) {
  const notes = new WebhookNotes(db, { get: () => ({ via: 'webhook' }) as Subscription })
  await notes.read([delivery.run])
  return notes.laneOf(delivery)
}

test('the next of a lane names the last that was delivered, though its number and its audit are gone', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('orders', ['order'])
  const deliver = async () => {
    const id = only(await engine.publish({ type: 'order', orderingKey: 'k' }))
    const delivery = only(await engine.lease(no))
    const place = await placeOf(engine, delivery)
    await engine.settle(delivery)
    return { id, ...place }
  }
  const first = await deliver()
  const second = await deliver()
  expect([first, second]).toMatchObject([
    { sequence: 1, delivered: 0 },
    { sequence: 2, delivered: 1 },
  ])
  await db.transaction(async (tx) => {
    const ids = `{${first.id},${second.id}}`
    await tx.run(foldLanes(db), [ids])
    for (const table of ['audit', 'lane_numbers']) {
      await tx.query(`delete from ${db.schema}.${table} where event_id = any($1::bigint[])`, [ids])
    }
  })
  expect(await deliver()).toMatchObject({ sequence: 3, delivered: 2, isLate: false })
})

test('what was delivered after the clock stepped back is not told as skipped', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('orders', ['order'])
  const leaseNext = async () => {
    await engine.publish({ type: 'order', orderingKey: 'k' })
    const delivery = only(await engine.lease(no))
    return { delivery, place: await placeOf(engine, delivery) }
  }
  const { delivery } = await leaseNext()
  await engine.moveClock(-60_000)
  await engine.settle(delivery)
  expect((await leaseNext()).place).toMatchObject({ sequence: 2, delivered: 1 })
})

test('what was buried is not counted as delivered', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('orders', ['order'])
  const id = only(await engine.publish({ type: 'order', orderingKey: 'k' }))
  const delivery = only(await engine.lease(no))
  await placeOf(engine, delivery)
  await engine.settle(delivery, { settlement: 'buried', reason: 'no' })
  await db.transaction((tx) => tx.run(foldLanes(db), [`{${id}}`]))
  const { rows } = await db.query(`select latest, delivered from ${db.schema}.lane_counters`)
  expect(rows).toEqual([{ latest: 1, delivered: 0 }])
})
