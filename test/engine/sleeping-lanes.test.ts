import { expect, test } from 'vitest'
import type { Connection, Database } from '../../src/db/database.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { cancelRequested } from '../../src/engine/cancel.ts'
import { expire } from '../../src/engine/expire.ts'
import { wakeSleepers } from '../../src/engine/wake-sleepers.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('sleeping_lanes', { schemas: 'emptied' })

/** Of two kinds, so that they are two chunks of their lane. */
const expiring = { orderingKey: 'k', expiresAt: new Date(Date.now() + 3_600_000) }
const lasting = { orderingKey: 'k' }

test('a lane whose next chunk is cancelled while its head completes goes on with the one behind it', async () => {
  const engine = await openEngine()
  const { no, chunk, last } = await laneOfThree(engine)
  await whileAdmitting(engine, (tx) =>
    cancelRequested(tx, engine.db, [{ subscription: no, eventIds: chunk }]),
  )
  expect(await idsOf(engine, no)).toEqual(last)
})

test('a lane whose next chunk is cancelled in part while its head completes goes on with the rest of it', async () => {
  const engine = await openEngine()
  const { no, chunk, last } = await laneOfThree(engine)
  await whileAdmitting(engine, (tx) =>
    cancelRequested(tx, engine.db, [{ subscription: no, eventIds: chunk.slice(0, 1) }]),
  )
  expect(await idsOf(engine, no)).toEqual(chunk.slice(1))
  expect(await idsOf(engine, no)).toEqual(last)
})

test('a lane whose next chunk expires while its head completes goes on with the one behind it', async () => {
  const engine = await openEngine()
  const { no, chunk, last } = await laneOfThree(engine)
  await engine.moveClock(2 * 3_600_000)
  await whileAdmitting(engine, async (tx) => {
    const once: Database['once'] = (statement, values) => tx.run(statement, values)
    const expired = await expire({ schema: engine.db.schema, once } as Database)
    expect(expired.map(({ eventId }) => eventId).sort()).toEqual(chunk)
  })
  expect(await idsOf(engine, no)).toEqual(last)
})

test('a lane goes on when whoever was taking its next chunk out thinks better of it', async () => {
  const engine = await openEngine()
  const { no, chunk } = await laneOfThree(engine)
  const changedMind = whileAdmitting(engine, async (tx) => {
    await cancelRequested(tx, engine.db, [{ subscription: no, eventIds: chunk }])
    throw new Error('rolled back')
  })
  await expect(changedMind).rejects.toThrow('rolled back')
  expect(await idsOf(engine, no)).toEqual(chunk)
})

test('an admission that could move nothing but what somebody has locked says that it is worth another look', async () => {
  const engine = await openEngine()
  const { no, chunk } = await laneOfThree(engine)
  await engine.db.transaction(async (tx) => {
    await cancelRequested(tx, engine.db, [{ subscription: no, eventIds: chunk }])
    expect(await new Admitter(engine.db).admit()).toEqual({ busy: true, moved: 0, drained: false })
  })
})

test('a gate whose limit is raised while an admission makes a run wait for it lets that run through', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await gatedSubscription(engine)
  await engine.publish({ concurrencyKey: 'g' })
  only(await engine.lease(no))
  const [second] = await engine.publish({ concurrencyKey: 'g' })
  let raising: Promise<unknown> = Promise.resolve()
  await db.transaction(async (tx) => {
    await tx.query(`select ${db.schema}.admit(null, null, null, null, 1000)`)
    raising = db.transaction(async (other) => {
      await other.query(`update ${db.schema}.subscriptions set key_concurrency = 5 where no = $1`, [no])
    })
    await expect.poll(() => isLockWaitedFor(tx)).toBe(true)
  })
  await raising
  expect(await idsOf(engine, no)).toEqual([second])
})

test('a gate whose next run is being cancelled lets it through when the cancel is rolled back', async () => {
  const engine = await openEngine()
  const no = await gatedSubscription(engine)
  await engine.publish({ concurrencyKey: 'g' }, { concurrencyKey: 'g' })
  const first = only(await engine.lease(no))
  const behind = await engine.db.query<{ id: number }>(
    `select event_ids[1]::int as id from ${engine.db.schema}.runs where state = 'gated'`,
  )
  await engine.settle(first)
  const changedMind = whileAdmitting(engine, async (tx) => {
    await cancelRequested(tx, engine.db, [{ subscription: no, eventIds: behind.rows.map(({ id }) => id) }])
    throw new Error('rolled back')
  })
  await expect(changedMind).rejects.toThrow('rolled back')
  expect(await idsOf(engine, no)).toEqual(behind.rows.map(({ id }) => id))
})

test('upkeep wakes a lane that has something waiting, nothing out and no note', async () => {
  const engine = await openEngine()
  const { no, chunk } = await laneOfThree(engine)
  expect(await wakeAll(engine)).toEqual([])
  await engine.db.query(`delete from ${engine.db.schema}.inbox`)
  expect(await engine.lease(no)).toEqual([])
  expect(await wakeAll(engine)).toEqual([{ kind: 'lane', name: 's', key: 'k' }])
  expect(await wakeAll(engine)).toEqual([])
  expect(await idsOf(engine, no)).toEqual(chunk)
})

test('upkeep wakes a gate that has room, runs that wait for it and no note', async () => {
  const engine = await openEngine()
  const no = await gatedSubscription(engine)
  const [, second] = await engine.publish({ concurrencyKey: 'g' }, { concurrencyKey: 'g' })
  const first = only(await engine.lease(no))
  expect(await wakeAll(engine)).toEqual([])
  await engine.settle(first)
  await engine.db.query(`delete from ${engine.db.schema}.inbox`)
  expect(await engine.lease(no)).toEqual([])
  expect(await wakeAll(engine)).toEqual([{ kind: 'gate', name: 'gated', key: 'g' }])
  expect(await idsOf(engine, no)).toEqual([second])
})

test('upkeep goes round thousands of lanes and finds the one that is asleep', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  await db.query(
    `insert into ${db.schema}.runs (subscription, state, event_ids, first_id, ordering_key)
    select $1, 'ready', array[n], n, 'k' || n from generate_series(1, 2500) as n where n <> 1700`,
    [no],
  )
  await db.query(
    `insert into ${db.schema}.lane_queue (subscription, ordering_key, position, event_ids)
    select $1, 'k' || n, 1, array[n + 5000] from generate_series(1, 2500) as n`,
    [no],
  )
  expect(await wakeAll(engine)).toEqual([{ kind: 'lane', name: 's', key: 'k1700' }])
})

/** A lane whose head has just completed: behind it a chunk of two, and one of another kind. */
async function laneOfThree(engine: Engine) {
  const no = await engine.subscribe('s', ['note'])
  await engine.publish(lasting)
  const head = only(await engine.lease(no))
  const chunk = await engine.publish(expiring, expiring)
  const last = await engine.publish(lasting)
  expect(await engine.lease(no)).toEqual([])
  await engine.settle(head)
  return { no, chunk, last }
}

async function gatedSubscription(engine: Engine): Promise<number> {
  const no = await engine.subscribe('gated', ['note'])
  await engine.db.query(`update ${engine.db.schema}.subscriptions set key_concurrency = 1 where no = $1`, [
    no,
  ])
  return no
}

/** Takes something out in a transaction that is still open while an admission goes by, and then ends it. */
async function whileAdmitting({ db }: Engine, take: (tx: Connection) => Promise<void>): Promise<void> {
  let admitting: Promise<unknown> = Promise.resolve()
  try {
    await db.transaction(async (tx) => {
      let failure: unknown
      await take(tx).catch((error) => {
        failure = error
      })
      admitting = new Admitter(db).admit()
      await Promise.race([admitting, isWaitedFor(tx)])
      if (failure !== undefined) throw failure
    })
  } finally {
    await admitting
  }
}

/** Resolves when another transaction waits for this one. */
async function isWaitedFor(tx: Connection): Promise<void> {
  for (;;) {
    const { rows } = await tx.query(
      `select 1 from pg_locks where not granted and locktype = 'transactionid'
        and transactionid = (pg_current_xact_id()::text::bigint % 4294967296)::text::xid`,
    )
    if (rows.length > 0) return
  }
}

/** Whether somebody waits for an advisory lock, in this database. */
async function isLockWaitedFor(tx: Connection): Promise<boolean> {
  const { rows } = await tx.query(
    `select 1 from pg_locks where not granted and locktype = 'advisory'
      and database = (select oid from pg_database where datname = current_database())`,
  )
  return rows.length > 0
}

/** Leases what is next, completes it, and says what it was. */
async function idsOf(engine: Engine, no: number): Promise<number[]> {
  const deliveries = await engine.lease(no)
  for (const delivery of deliveries) await engine.settle(delivery)
  return deliveries.map(({ event }) => event.id)
}

async function wakeAll({ db }: Engine) {
  const found = []
  let place: Parameters<typeof wakeSleepers>[1] = { lanesAfter: null, gatesAfter: null }
  do {
    const { sleepers, ...next } = await wakeSleepers(db, place)
    found.push(...sleepers)
    place = next
  } while (place.lanesAfter !== null || place.gatesAfter !== null)
  return found
}

test.each(['deferred', 'delayed', 'gated', 'leased'])(
  'a run that is %s and that no statement would ever look at cannot be stored',
  async (state) => {
    const { db } = await openEngine()
    const stored = db.query(
      `insert into ${db.schema}.runs (subscription, state, event_ids, first_id) values (0, $1, '{1}', 1)`,
      [state],
    )
    await expect(stored).rejects.toMatchObject({ code: '23514' })
  },
)
