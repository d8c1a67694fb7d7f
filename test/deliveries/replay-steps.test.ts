import { expect, test } from 'vitest'
import type { PostgresDatabase } from '../../src/db/postgres.ts'
import { createReplay } from '../../src/deliveries/create-replay.ts'
import { listDeadLetters } from '../../src/deliveries/dead-letters.ts'
import { redrive } from '../../src/deliveries/repair.ts'
import { abortReplay, getReplay, listReplays, type Replay } from '../../src/deliveries/replay-rows.ts'
import { stepReplay } from '../../src/deliveries/step-replay.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { planRecover, planReplay, type RecoverOptions, type ReplayOptions } from '../../src/domain/replay.ts'
import { settle, settleRequest } from '../../src/engine/settle.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { listEvents } from '../../src/events/list-events.ts'
import { deleteSubscription } from '../../src/subscriptions/subscriptions.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'

const openEngine = useEngines('replays')
const longAgo = new Date('2020-01-01T00:00:00Z')

/** Settles all that comes out of a subscription now; their ids, in order. */
async function finish(
  engine: Engine,
  subscription: number,
  settlement: 'completed' | 'buried',
): Promise<number[]> {
  const ids: number[] = []
  for (;;) {
    const leased = await engine.lease(subscription)
    if (leased.length === 0) return ids
    ids.push(...leased.map(({ event }) => event.id))
    await settleAll(engine, leased, settlement)
  }
}

/** Of a lane only the head can be settled, so these go one by one. */
async function settleAll(
  engine: Engine,
  leased: readonly LeasedDelivery[],
  settlement: 'completed' | 'buried',
): Promise<void> {
  const lanes = leased.filter(({ event }) => event.orderingKey !== null)
  for (const delivery of lanes) await engine.settle(delivery, { settlement, reason: 'broken' })
  const requests = leased
    .filter(({ event }) => event.orderingKey === null)
    .map(({ run, event }) =>
      settleRequest(
        { runId: run.id, token: run.token, eventId: event.id, failures: 0 },
        settlement === 'completed' ? { kind: 'complete' } : { kind: 'bury', reason: 'broken', failures: 1 },
      ),
    )
  if (requests.length > 0) expect(await settle(engine.db, requests)).toEqual([])
}

function drain(engine: Engine, subscription: number): Promise<number[]> {
  return finish(engine, subscription, 'completed')
}

async function create(db: PostgresDatabase, subscription: number, plan: ReturnType<typeof planReplay>) {
  return createReplay(db, { plan, subscription, by: 'olga', identical: 'same' })
}

function recover(db: PostgresDatabase, subscription: number, options: Partial<RecoverOptions> = {}) {
  return create(db, subscription, planRecover({ since: longAgo, ...options }))
}

function replay(db: PostgresDatabase, subscription: number, options: ReplayOptions) {
  return create(db, subscription, planReplay(options))
}

async function run(db: PostgresDatabase, { id }: { id: string }): Promise<Replay> {
  while ((await stepReplay(db)) !== undefined);
  return (await getReplay(db, id)) as Replay
}

test('recovering sends every dead letter once more, in order per lane, and says how many', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const events = Array.from({ length: 603 }, (_, n) => ({ type: 'order', orderingKey: `k${n % 3}` }))
  const ids = await engine.publish(...events)
  await finish(engine, orders, 'buried')
  const made = await recover(db, orders)
  expect(await getReplay(db, made.id)).toMatchObject({ total: 603, totalIsEstimate: false, done: 0 })
  const done = await run(db, made)
  expect(done).toMatchObject({ state: 'completed', done: 603, skipped: 0, removed: 0 })
  const sent = await drain(engine, orders)
  for (const key of [0, 1, 2]) {
    const ofKey = ids.filter((_, n) => n % 3 === key)
    expect(sent.filter((id) => ofKey.includes(id))).toEqual(ofKey)
  }
  expect((await listDeadLetters(db)).total).toBe(0)
  expect((await stepReplay(db)) === undefined).toBe(true)
})

test('a lane keeps its order though its dead letters had different numbers of attempts', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order'])
  const ids = await engine.publish(...Array.from({ length: 6 }, () => ({ type: 'order', orderingKey: 'a' })))
  // Every second one is tried twice before it is buried; a failure gives up the lease of the whole lane.
  for (let leased: LeasedDelivery[] = [], buried = 0; buried < ids.length; ) {
    if (leased.length === 0) leased = await engine.lease(orders)
    const head = leased.shift() as LeasedDelivery
    const fails = head.event.id % 2 === 0 && head.attempt === 1
    await engine.settle(head, fails ? { settlement: 'retried', afterMs: 0 } : { settlement: 'buried' })
    if (fails) leased = []
    else buried++
  }
  await run(engine.db, await recover(engine.db, orders))
  const rows = await engine.db.query<{ event_ids: number[] }>(
    `select event_ids from ${engine.db.schema}.inbox where event_ids is not null order by id`,
  )
  // Each row is a stretch of its own: an admission that stops between two of them mixes nothing up.
  expect(rows.rows.flatMap((row) => row.event_ids)).toEqual(ids)
  expect(await drain(engine, orders)).toEqual(ids)
})

test('only dead letters of the time asked for are recovered, and expired ones only on demand', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const [early] = await engine.publish({ type: 'order' })
  await finish(engine, orders, 'buried')
  await engine.moveClock(3_600_000)
  const late = await engine.publish({ type: 'order' }, { type: 'order' })
  await finish(engine, orders, 'buried')
  const { deadLetters } = await listDeadLetters(db)
  await db.query(`update ${db.schema}.dead_letters set kind = 'expired' where event_id = $1`, [late[1]])
  const since = deadLetters[1]?.buriedAt as Date
  expect(await run(db, await recover(db, orders, { since }))).toMatchObject({ total: 1, done: 1 })
  expect(await drain(engine, orders)).toEqual([late[0]])
  expect(await run(db, await recover(db, orders, { until: since }))).toMatchObject({ done: 1 })
  expect(await drain(engine, orders)).toEqual([early])
  expect(await run(db, await recover(db, orders, { deadLetters: 'all' }))).toMatchObject({ done: 1 })
  expect(await drain(engine, orders)).toEqual([late[1]])
})

test('what is buried again, or only after the call, is not met by the same recovery', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish(...Array.from({ length: 501 }, () => ({ type: 'order' })))
  await finish(engine, orders, 'buried')
  await engine.publish({ type: 'order' })
  const made = await recover(db, orders)
  await stepReplay(db)
  await finish(engine, orders, 'buried')
  expect(await run(db, made)).toMatchObject({ done: 501, total: 501 })
  expect(await drain(engine, orders)).toHaveLength(1)
  expect((await listDeadLetters(db)).total).toBe(501)
})

test('a dead letter whose event is gone counts as removed', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const [gone] = await engine.publish({ type: 'order' }, { type: 'order' })
  await finish(engine, orders, 'buried')
  await db.query(`delete from ${db.schema}.events where id = $1`, [gone])
  expect(await run(db, await recover(db, orders))).toMatchObject({ total: 2, done: 1, removed: 1 })
})

test('a dead letter that blocks its lane goes back to its head', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order'], { onExhausted: 'block' })
  const ids = await engine.publish({ type: 'order', orderingKey: 'a' }, { type: 'order', orderingKey: 'a' })
  await engine.settle((await engine.lease(orders))[0] as never, { settlement: 'buried', reason: 'x' })
  expect(await engine.lease(orders)).toEqual([])
  expect(await run(engine.db, await recover(engine.db, orders))).toMatchObject({ done: 1 })
  expect(await drain(engine, orders)).toEqual(ids)
})

test('a replay sends again whatever became of it, leaves alone what waits, and reads as pending', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const [completed, buried, cancelled] = await engine.publish(
    ...Array.from({ length: 3 }, () => ({ type: 'order', orderingKey: 'a' })),
  )
  const settlements = ['completed', 'buried', 'cancelled'] as const
  for (const [place, delivery] of (await engine.lease(orders)).entries()) {
    await engine.settle(delivery, { settlement: settlements[place] as 'buried', reason: 'x' })
  }
  const [waiting] = await engine.publish({ type: 'order', orderingKey: 'a' })
  const made = await replay(db, orders, { from: longAgo })
  expect(await run(db, made)).toMatchObject({ total: 4, done: 3, skipped: 1, state: 'completed' })
  const statusOf = async (id: number | undefined) =>
    (await getEvent(db, { id: id as number, logs: 'without' }))?.progress.status
  for (const id of [completed, buried, cancelled]) expect(await statusOf(id)).toBe('PENDING')
  expect((await listEvents(db, { status: 'PENDING' })).events).toHaveLength(4)
  for (const status of ['COMPLETED', 'CANCELLED', 'FAILED'] as const) {
    expect((await listEvents(db, { status })).events).toEqual([])
  }
  expect((await listDeadLetters(db)).total).toBe(0)
  // To the tail of the lane: after what waited there.
  expect(await drain(engine, orders)).toEqual([waiting, completed, buried, cancelled])
  expect((await listEvents(db, { status: 'COMPLETED' })).events).toHaveLength(4)
  const { rows } = await db.query(
    `select event_id, times, replay from ${db.schema}.replayed order by event_id`,
  )
  expect(rows).toEqual(
    [completed, buried, cancelled].map((id) => ({ event_id: id, times: 1, replay: made.id })),
  )
})

test('a delivery that is replayed twice is counted twice', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const ids = await engine.publish({ type: 'order' })
  await drain(engine, orders)
  await run(db, await replay(db, orders, { eventIds: ids }))
  expect(await drain(engine, orders)).toEqual(ids)
  const second = await replay(db, orders, { from: longAgo })
  await run(db, second)
  expect(await drain(engine, orders)).toEqual(ids)
  const { rows } = await db.query(`select times, replay from ${db.schema}.replayed`)
  expect(rows).toEqual([{ times: 2, replay: second.id }])
})

test('a replay also sends what the subscription would be owed now, and nothing else', async () => {
  const engine = await openEngine()
  const { db } = engine
  const [before, other] = await engine.publish({ type: 'order' }, { type: 'mail' })
  const late = await engine.subscribe('late', ['order'])
  const [after] = await engine.publish({ type: 'order' })
  expect(await run(db, await replay(db, late, { from: longAgo }))).toMatchObject({ done: 1, skipped: 1 })
  expect((await drain(engine, late)).sort()).toEqual([before, after])
  const { rows } = await db.query(`select owed from ${db.schema}.events where id = any($1) order by id`, [
    [before, other],
  ])
  expect(rows).toEqual([{ owed: [late] }, { owed: [] }])
})

test('a replay is bounded by times, ids, type and filter', async () => {
  const engine = await openEngine()
  const { db } = engine
  const all = await engine.subscribe('all', ['*'])
  const [first] = await engine.publish({ type: 'order.made', payload: { paid: true } })
  await engine.moveClock(3_600_000)
  const [second, third] = await engine.publish(
    { type: 'order.paid', payload: { paid: true } },
    { type: 'mail', payload: { paid: false } },
  )
  await drain(engine, all)
  const noon = (await getEvent(db, { id: second as number, logs: 'without' }))?.event.createdAt as Date
  const cases: [ReplayOptions, (number | undefined)[]][] = [
    [{ from: noon }, [second, third]],
    [{ to: noon }, [first]],
    [{ eventIds: [third as number, first as number] }, [first, third]],
    [{ eventType: 'order.*' }, [first, second]],
    [{ eventType: 'mail' }, [third]],
    [{ eventType: '*', filter: { '/payload/paid': true } }, [first, second]],
    [{ from: noon, eventType: 'order.*' }, [second]],
  ]
  for (const [options, expected] of cases) {
    expect(await run(db, await replay(db, all, options))).toMatchObject({ total: expected.length })
    expect(await drain(engine, all)).toEqual(expected)
  }
})

test('a long stretch of events that nobody asks for takes several steps', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const mails = Array.from({ length: 5_200 }, () => ({ type: 'mail' }))
  const ids = await engine.publish({ type: 'order' }, ...mails, { type: 'order' })
  await drain(engine, orders)
  const made = await replay(db, orders, { from: longAgo })
  expect(await stepReplay(db)).toBe(made.id)
  expect(await getReplay(db, made.id)).toMatchObject({ done: 1, state: 'running' })
  expect(await run(db, made)).toMatchObject({ done: 2, state: 'completed' })
  expect(await drain(engine, orders)).toEqual([ids[0], ids.at(-1)])
})

test('events that retention has removed are told: by number, or by how far back they are kept', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const ids = await engine.publish({ type: 'order' }, { type: 'order' })
  await drain(engine, orders)
  await db.query(`delete from ${db.schema}.events where id = $1`, [ids[0]])
  const byIds = await run(db, await replay(db, orders, { eventIds: ids }))
  expect(byIds).toMatchObject({ total: 2, done: 1, removed: 1, oldestKeptAt: null })
  const kept = (await getEvent(db, { id: ids[1] as number, logs: 'without' }))?.event.createdAt as Date
  const byTime = await run(db, await replay(db, orders, { from: longAgo }))
  expect(byTime.oldestKeptAt).toEqual(kept)
  const later = await run(db, await replay(db, orders, { from: new Date(kept.getTime() + 1) }))
  expect(later.oldestKeptAt).toBeNull()
})

test('a rate lets through a second’s worth at a time, on the database’s clock', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish(...Array.from({ length: 50 }, () => ({ type: 'order' })))
  await drain(engine, orders)
  const made = await replay(db, orders, { from: longAgo, ratePerSecond: 0.01 })
  expect(await run(db, made)).toMatchObject({ done: 1, state: 'running' })
  await engine.moveClock(99_000)
  expect(await run(db, made)).toMatchObject({ done: 1 })
  await engine.moveClock(2_000)
  expect(await run(db, made)).toMatchObject({ done: 2 })
  // What was not used is not saved up.
  await engine.moveClock(3_600_000)
  expect(await run(db, made)).toMatchObject({ done: 3, state: 'running' })
})

test('an identical call is the same replay while it runs and for ten minutes after, under 32 callers', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish({ type: 'order' })
  await finish(engine, orders, 'buried')
  const made = await Promise.all(Array.from({ length: 32 }, () => recover(db, orders)))
  expect(new Set(made.map(({ id }) => id)).size).toBe(1)
  expect(made.filter(({ isNew }) => isNew)).toHaveLength(1)
  expect(await recover(db, orders, { ratePerSecond: 5 })).toMatchObject({ isNew: true })
  await run(db, only(made.filter(({ isNew }) => isNew)))
  await engine.moveClock(599_000)
  expect(await recover(db, orders)).toEqual({ id: made[0]?.id, isNew: false })
  await engine.moveClock(2_000)
  expect(await recover(db, orders)).toMatchObject({ isNew: true })
})

test('the order of members makes no other request', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order'])
  const one = await replay(engine.db, orders, { filter: { '/payload/a': 1, '/payload/b': 2 } })
  const other = await replay(engine.db, orders, { filter: { '/payload/b': 2, '/payload/a': 1 } })
  expect(other).toEqual({ id: one.id, isNew: false })
})

test('asked for again on purpose, or after an abort, it is another replay', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const first = await recover(db, orders)
  const plan = planRecover({ since: longAgo })
  const again = await createReplay(db, { plan, subscription: orders, by: 'olga', identical: 'again' })
  expect(again).toMatchObject({ isNew: true })
  for (const { id } of [first, again]) await abortReplay(db, { id, by: 'olga' })
  expect(await recover(db, orders)).toMatchObject({ isNew: true })
})

test('what is aborted sends nothing more, and aborting twice changes nothing', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish(...Array.from({ length: 600 }, () => ({ type: 'order' })))
  await finish(engine, orders, 'buried')
  const { id } = await recover(db, orders)
  await stepReplay(db)
  await abortReplay(db, { id, by: 'olga' })
  const aborted = await getReplay(db, id)
  expect(aborted).toMatchObject({ state: 'aborted', done: 500, reason: 'aborted by olga' })
  await abortReplay(db, { id, by: 'paul' })
  expect(await run(db, { id })).toEqual(aborted)
  expect((await listDeadLetters(db)).total).toBe(100)
})

test('two replays of one subscription go on one after the other, those of others beside them', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const mails = await engine.subscribe('mails', ['order'])
  await engine.publish(...Array.from({ length: 600 }, () => ({ type: 'order' })))
  await finish(engine, orders, 'buried')
  await finish(engine, mails, 'buried')
  const first = await recover(db, orders)
  // Ids of one millisecond have no order.
  await engine.moveClock(10)
  const second = await replay(db, orders, { from: longAgo })
  const third = await recover(db, mails)
  const steps: (string | undefined)[] = []
  for (let step = 0; step < 6; step++) steps.push(await stepReplay(db))
  const ofOrders = steps.filter((id) => id !== third.id)
  expect(ofOrders).toEqual([first.id, first.id, second.id, second.id])
  expect(steps.slice(0, 3)).toContain(third.id)
  expect(await getReplay(db, second.id)).toMatchObject({ skipped: 600, done: 0, state: 'completed' })
})

test('while one process takes a step, another finds nothing to do in that subscription', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const { id } = await recover(db, orders)
  await db.transaction(async (tx) => {
    await tx.query(`select 1 from ${db.schema}.replays where id = $1 for update`, [id])
    expect(await stepReplay(db)).toBeUndefined()
  })
  expect(await stepReplay(db)).toBe(id)
})

test('a step that fails changes nothing, is told, and is tried again', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish({ type: 'order' })
  await finish(engine, orders, 'buried')
  const { id } = await recover(db, orders)
  await db.query(`alter table ${db.schema}.runs add constraint broken check (subscription <> ${orders})`)
  await expect(stepReplay(db)).rejects.toThrow('broken')
  expect(await getReplay(db, id)).toMatchObject({ done: 0, lastError: expect.stringContaining('broken') })
  expect((await listDeadLetters(db)).total).toBe(1)
  await db.query(`alter table ${db.schema}.runs drop constraint broken`)
  expect(await stepReplay(db)).toBeUndefined()
  await engine.moveClock(6_000)
  expect(await run(db, { id })).toMatchObject({ done: 1, state: 'completed', lastError: null })
})

test.each(['recover', 'replay'] as const)(
  '%s waits for a redrive of the same, and sends nothing twice',
  async (kind) => {
    const engine = await openEngine()
    const { db } = engine
    const orders = await engine.subscribe('orders', ['order'])
    const ids = await engine.publish({ type: 'order' }, { type: 'order' })
    await finish(engine, orders, 'buried')
    const { deadLetters } = await listDeadLetters(db)
    const made = kind === 'recover' ? await recover(db, orders) : await replay(db, orders, { from: longAgo })
    const redriving = await db.transaction(async (tx) => {
      const within = { schema: db.schema, once: tx.run.bind(tx) } as unknown as PostgresDatabase
      await redrive(within, { deadLetterIds: deadLetters.map((one) => one.id), by: 'paul' })
      const stepping = run(db, made)
      // Not by pg_stat_activity: a transaction that has read it once never sees who connects later.
      const waiting =
        'select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))'
      await eventually('the step waits', async () => (await tx.query(waiting)).rows.length > 0)
      return { stepping }
    })
    expect(await redriving.stepping).toMatchObject({ done: 0, skipped: 2, state: 'completed' })
    expect(await drain(engine, orders)).toEqual(ids)
  },
)

test('the replay of a subscription that is deleted meanwhile is aborted, and says why', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const made = await recover(db, orders)
  await deleteSubscription(db, db, { name: 'orders' })
  const reason = 'the subscription was deleted'
  expect(await run(db, made)).toMatchObject({ state: 'aborted', reason })
  await expect(recover(db, orders, { ratePerSecond: 1 })).rejects.toMatchObject({ code: 'NOT_FOUND' })
})

test('replays are listed by subscription and state, page by page', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const mails = await engine.subscribe('mails', ['mail'])
  const first = await recover(db, orders)
  await run(db, first)
  await engine.moveClock(10)
  const second = await recover(db, mails)
  const ids = async (filter: Parameters<typeof listReplays>[1]) =>
    (await listReplays(db, filter)).replays.map(({ id }) => id)
  expect(await ids({})).toEqual([first.id, second.id])
  expect(await ids({ state: 'running' })).toEqual([second.id])
  const { subscription } = (await getReplay(db, first.id)) as Replay
  expect(await ids({ subscriptionId: subscription.id })).toEqual([first.id])
  const page = await listReplays(db, { limit: 1, order: 'desc' })
  expect(page).toMatchObject({ total: 2, totalIsEstimate: false, replays: [{ id: second.id }] })
  expect(await ids({ limit: 1, order: 'desc', cursor: page.nextCursor as string })).toEqual([first.id])
})
