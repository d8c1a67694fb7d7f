import { expect, test } from 'vitest'
import { sendAgain } from '../../src/deliveries/send-again.ts'
import { pruneEvents } from '../../src/retention/prune-events.ts'
import { only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('prune_events')
const all = { keepMs: 0, turn: 'now' } as const
const replay = '01890000-0000-7000-8000-000000000000'

test('an event that is being sent again stays, and what was pruned first is counted as removed', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('notes', ['note'])
  const [first, second] = (await engine.publish({}, {})) as [number, number]
  for (const delivery of await engine.lease(no)) await engine.settle(delivery)
  await db.transaction(async (tx) => {
    const request = { replay, kind: 'replay', subscription: no, by: 'test' } as const
    expect(await sendAgain(tx, db, { ...request, eventIds: [first] })).toMatchObject({ done: 1 })
    expect(await pruneEvents(db, all)).toMatchObject({ removed: 1 })
    expect(await sendAgain(tx, db, { ...request, eventIds: [second] })).toEqual({
      done: 0,
      skipped: 0,
      removed: 1,
    })
  })
  expect(await pruneEvents(db, all)).toMatchObject({ removed: 0 })
  await engine.settle(only(await engine.lease(no)))
  expect(await pruneEvents(db, all)).toMatchObject({ removed: 1 })
})

test('an event whose dead letter is being redriven stays', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('notes', ['note'])
  await engine.publish({})
  await engine.settle(only(await engine.lease(no)), { settlement: 'buried', reason: 'no' })
  expect(await pruneEvents(db, all)).toMatchObject({ removed: 0 })
  await db.query(`update ${db.schema}.dead_letters set redriven_at = ${db.schema}.clock()`)
  expect(await pruneEvents(db, all)).toMatchObject({ removed: 1 })
})

test('a publish that commits behind the walk is found within a day', async () => {
  const engine = await openEngine()
  const { db } = engine
  const due = { ...all, turn: 'when due' } as const
  const late = only(await engine.publish({ type: 'nobody' }))
  await db.query(`delete from ${db.schema}.events where id = $1`, [late])
  for (let pass = 1; pass <= 2; pass++) {
    await engine.publish({ type: 'nobody' })
    expect(await pruneEvents(db, due)).toMatchObject({ removed: 1 })
    await engine.moveClock(600_000)
  }
  // As if it had been in a transaction that was open all the time.
  await db.query(
    `insert into ${db.schema}.events (id, type, payload, owed, created_at) values ($1, 'nobody', '1', '{}', now())`,
    [late],
  )
  expect(await pruneEvents(db, due)).toMatchObject({ removed: 0 })
  await engine.moveClock(86_400_000)
  await pruneEvents(db, due)
  await engine.moveClock(600_000)
  expect(await pruneEvents(db, due)).toMatchObject({ removed: 1 })
})
