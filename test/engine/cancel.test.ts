import { expect, test, vi } from 'vitest'
import type { Connection, Database } from '../../src/db/database.ts'
import { reset } from '../../src/deliveries/reset.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { cancel, cancelEvents } from '../../src/engine/cancel.ts'
import { expire } from '../../src/engine/expire.ts'
import { heartbeat } from '../../src/engine/heartbeat.ts'
import { leaseStatementFor, leaseValues } from '../../src/engine/lease.ts'
import { reclaim } from '../../src/engine/reclaim.ts'
import { release } from '../../src/engine/release.ts'
import { PosthornError } from '../../src/errors.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'
import { endDeletedBacklog } from './deleted-backlog.ts'

const openEngine = useEngines('cancel', { schemas: 'emptied' })

test('what a lease leaves behind while it is being cancelled is cancelled all the same', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [first, second] = (await engine.publish({}, {})) as [number, number]
  const cancelling = await whileLocked(engine.db, [second], async (tx) => {
    await tx.run(leaseStatementFor(engine.db, oneOf(no)), leaseValues(oneOf(no)))
  })
  expect(cancelling).toEqual([{ eventId: second, subscription: no, told: false }])
  expect(await statusOf(engine, first)).toBe('PROCESSING')
  expect(await statusOf(engine, second)).toBe('CANCELLED')
})

test('what leaves the queue of its lane while it is being cancelled is cancelled all the same', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  await engine.publish({ orderingKey: 'k' })
  const head = only(await engine.lease(no))
  const [behind] = (await engine.publish({ orderingKey: 'k' })) as [number]
  expect(await engine.lease(no)).toEqual([])
  await engine.settle(head)
  const cancelling = await whileLocked(engine.db, [behind], async (tx) => {
    await tx.query(`select ${engine.db.schema}.admit(null, null, null, null, 1000)`)
  })
  expect(cancelling).toEqual([{ eventId: behind, subscription: no, told: false }])
  expect(await statusOf(engine, behind)).toBe('CANCELLED')
})

test('a cancel waits for nobody who settles in a transaction of his own, and holds nobody up meanwhile', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  const [settled, waiting] = (await engine.publish({ orderingKey: 'a' }, { orderingKey: 'b' })) as [
    number,
    number,
  ]
  const deliveries = await engine.lease(no)
  await engine.settle(deliveries.find(({ event }) => event.id === waiting) as LeasedDelivery, {
    settlement: 'retried',
    afterMs: 60_000,
  })
  const request = { eventIds: [settled, waiting], subscription: null, reason: 'test' }
  await db.transaction(async (tx) => {
    await tx.query(`select 1 from ${db.schema}.runs where state = 'leased' for update`)
    await expect(cancelEvents(db, new Admitter(db), request)).rejects.toMatchObject({
      code: 'CANCEL_UNFINISHED',
    })
    expect(await statusOf(engine, waiting)).toBe('CANCELLED')
  })
  expect(await cancelEvents(db, new Admitter(db), request)).toEqual([
    { eventId: settled, subscription: no, told: true },
  ])
})

test('a cancel that loses the database halfway does not say that nothing was done', async () => {
  const engine = await openEngine()
  const { db } = engine
  await engine.subscribe('s', ['note'])
  const id = only(await engine.publish({}))
  const away = new PosthornError('DATABASE_UNAVAILABLE', { reason: 'gone' })
  const lostAfterwards = { schema: db.schema, once: db.once.bind(db), run: () => Promise.reject(away) }
  const request = { eventIds: [id], subscription: null, reason: 'test' }
  await expect(
    cancelEvents(lostAfterwards as unknown as Database, new Admitter(db), request),
  ).rejects.toMatchObject({ code: 'CANCEL_UNFINISHED', cause: away })
  expect(await statusOf(engine, id)).toBe('CANCELLED')
})

test('what expires just after it was cancelled in part expires once, and nothing of it is left', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  await engine.publish({ orderingKey: 'k' })
  only(await engine.lease(no))
  const behind = { orderingKey: 'k', expiresAt: new Date(Date.now() + 60_000) }
  const [first, second] = (await engine.publish(behind, behind)) as [number, number]
  await engine.lease(no)
  // A clock that stops an expiry after its snapshot, until the chunk is another.
  await db.query(`create sequence ${db.schema}.shift_ms minvalue 0;
    create or replace function ${db.schema}.clock() returns timestamptz language plpgsql stable as $$
    begin
      perform pg_advisory_xact_lock_shared(4242);
      return statement_timestamp() + (select last_value from ${db.schema}.shift_ms) * interval '1 ms';
    end $$`)
  let expiring: Promise<unknown> = Promise.resolve()
  await db.transaction(async (tx) => {
    // Planned before it is stopped: a plan asks for the time, too.
    expect(await expire(db)).toEqual([])
    await tx.query(`select pg_advisory_xact_lock(4242), setval('${db.schema}.shift_ms', 120000)`)
    expiring = expire(db)
    await eventually('it has begun', async () => {
      const { rows } = await tx.query(
        `select 1 from pg_locks where not granted and locktype = 'advisory' and objid = 4242
          and database = (select oid from pg_database where datname = current_database())`,
      )
      return rows.length > 0
    })
    await tx.query(`update ${db.schema}.lane_queue set event_ids = array_remove(event_ids, $1)`, [first])
  })
  await expiring
  expect(await expire(db)).toEqual([])
  const { rows } = await db.query(`select event_id::int as id from ${db.schema}.dead_letters`)
  expect(rows).toEqual([{ id: second }])
})

test('a cancel of one subscription does not wait for the others', async () => {
  const engine = await openEngine()
  const one = await engine.subscribe('one', ['note'])
  await engine.subscribe('other', ['note'])
  const [id] = (await engine.publish({ orderingKey: 'k' })) as [number]
  const request = { eventIds: [id], subscription: one, reason: 'test' }
  const cancelled = await cancelEvents(engine.db, new Admitter(engine.db), request)
  expect(cancelled).toEqual([{ eventId: id, subscription: one, told: false }])
  expect(await statusOf(engine, id)).toBe('PENDING')
})

test.each(['retried', 'snoozed', 'released'] as const)(
  'an attempt that was cancelled and is %s is recorded as cancelled, and not made again',
  async (settlement) => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [id] = (await engine.publish({})) as [number]
    const delivery = only(await engine.lease(no))
    const request = { eventIds: [id], subscription: null, reason: 'test' }
    expect(await cancel(engine.db, request)).toMatchObject([{ told: true }])
    await engine.settle(delivery, { settlement, afterMs: 0, reason: 'no luck' })
    await engine.moveClock(60_000)
    expect(await engine.lease(no)).toEqual([])
    const event = await getEvent(engine.db, { id, logs: 'with' })
    expect(event?.progress.status).toBe('CANCELLED')
    expect(event?.logs.at(-1)).toMatchObject({ action: 'CANCELLED', errorMessage: 'no luck' })
  },
)

test('a cancelled attempt that completes is completed', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [id] = (await engine.publish({})) as [number]
  const delivery = only(await engine.lease(no))
  await cancel(engine.db, { eventIds: [id], subscription: null, reason: 'test' })
  await engine.settle(delivery)
  expect(await statusOf(engine, id)).toBe('COMPLETED')
})

test('what was cancelled while it was leased does not come back from a worker that stops or crashes', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  for (const giveBack of ['stops', 'crashes']) {
    const ids = await engine.publish({}, {})
    const [first] = await engine.lease(no, { leaseMs: 1_000 })
    await cancel(db, { eventIds: [ids[1] as number], subscription: null, reason: 'test' })
    if (giveBack === 'stops') await release(db, [{ runId: first?.run.id ?? 0, token: first?.run.token ?? 0 }])
    else {
      await engine.moveClock(60_000)
      await reclaim(db)
    }
    const again = only(await engine.lease(no))
    expect(again.event.id, giveBack).toBe(ids[0])
    await engine.settle(again)
    expect(await statusOf(engine, ids[1] as number), giveBack).toBe('CANCELLED')
  }
})

test('a reset of what waits behind the head of a leased lane leaves the head to its worker', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [first, second] = (await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })) as [
    number,
    number,
  ]
  const [head] = await engine.lease(no, { begins: 'reported' })
  const { id: runId, token } = (head as NonNullable<typeof head>).run
  await heartbeat(engine.db, [{ runId, token, leaseMs: 30_000, begun: [first] }])
  expect(await reset(engine.db, { eventId: second, reason: 'test' })).toEqual([])
  await engine.settle(head as NonNullable<typeof head>)
  expect(await statusOf(engine, first)).toBe('COMPLETED')
})

test('the backlog of a deleted subscription ends, however large', async () => {
  // A hundred times as many are in cancel.long.test.ts.
  await endDeletedBacklog(await openEngine(), { plain: 1_000, inLanes: 200 })
})

/** Cancels while a transaction that has moved something is open, and goes on once the cancel waits for it. */
async function whileLocked(
  db: Database,
  eventIds: readonly number[],
  move: (tx: Connection) => Promise<void>,
) {
  const cancelling = await db.transaction(async (tx) => {
    await move(tx)
    const admitter = new Admitter(db)
    const rounds = vi.spyOn(admitter, 'admit')
    const answer = cancelEvents(db, admitter, { eventIds, subscription: null, reason: 'test' })
    await eventually('a round has passed by what is locked', () => rounds.mock.calls.length >= 2)
    return { answer }
  })
  return cancelling.answer
}

function oneOf(subscription: number) {
  const want = { subscription, eventsMax: 1, runsMax: 1, suspects: true, leaseMs: 30_000, laneMax: 1 }
  return {
    wants: [{ ...want, limited: false }],
    token: 999,
    worker: 1,
    begins: 'granted',
    tags: null,
  } as const
}

async function statusOf({ db }: Engine, id: number): Promise<string | undefined> {
  return (await getEvent(db, { id, logs: 'without' }))?.progress.status
}
