import { expect, test } from 'vitest'
import { Admitter } from '../../src/engine/admit.ts'
import { cancelEvents } from '../../src/engine/cancel.ts'
import { useEngines } from '../support/engine.ts'
import { endDeletedBacklog } from './deleted-backlog.ts'

const openEngine = useEngines('cancel_long')

test('the backlog of a deleted subscription ends, also if it is very large', async () => {
  await endDeletedBacklog(await openEngine(), { plain: 100_000, inLanes: 20_000 })
})

test('a cancel that can’t get at an arrival says so, and works once it can', async () => {
  const engine = await openEngine()
  const { db } = engine
  await engine.subscribe('s', ['note'])
  const [id] = (await engine.publish({ orderingKey: 'k' })) as [number]
  const [unkeyed] = (await engine.publish({})) as [number]
  const request = { eventIds: [id], subscription: null, reason: 'test' }
  await db.transaction(async (tx) => {
    await tx.query(`select ${db.schema}.admit(null, null, null, null, 0)`)
    await expect(cancelEvents(db, new Admitter(db), request)).rejects.toMatchObject({
      code: 'CANCEL_UNFINISHED',
      status: 503,
    })
    // What has arrived is nobody's to wait for.
    expect(await cancelEvents(db, new Admitter(db), { ...request, eventIds: [unkeyed] })).toHaveLength(1)
  })
  expect(await cancelEvents(db, new Admitter(db), request)).toMatchObject([{ eventId: id, told: false }])
})
