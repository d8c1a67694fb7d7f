import { describe, expect, test } from 'vitest'
import { countReplay } from '../../src/deliveries/count-replay.ts'
import { createReplay } from '../../src/deliveries/create-replay.ts'
import { getReplay } from '../../src/deliveries/replay-rows.ts'
import { stepReplay } from '../../src/deliveries/step-replay.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { planRecover, planReplay } from '../../src/domain/replay.ts'
import { storedEvent } from '../../src/domain/stored-event.ts'
import { heartbeat } from '../../src/engine/heartbeat.ts'
import { spend, takeTurn } from '../../src/engine/limit.ts'
import { peek } from '../../src/engine/peek.ts'
import { reclaim } from '../../src/engine/reclaim.ts'
import { listEvents } from '../../src/events/list-events.ts'
import { claimMemory, releaseMemory } from '../../src/memory/claim-memory.ts'
import { loadMemory } from '../../src/memory/load-memory.ts'
import { MemoryClock } from '../../src/memory/memory-clock.ts'
import { forgetMemory, movePortion } from '../../src/memory/move-memory.ts'
import { persistMemory } from '../../src/memory/persist-memory.ts'
import { checkpoint } from '../../src/queues/checkpoints.ts'
import { addUpTallies } from '../../src/queues/queue-upkeep.ts'
import { takePruneTurn } from '../../src/retention/prune-statements.ts'
import { abandonedSubscriptions } from '../../src/subscriptions/subscriptions.ts'
import { reportEndpoints, takeProbes } from '../../src/webhooks/send/breaker.ts'
import { registerWorker } from '../../src/workers/workers.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'

const openEngine = useEngines('clock_steps', { schemas: 'emptied' })
const hourMs = 3_600_000

async function limitRate(engine: Engine, no: number, ratePerSecond: number): Promise<void> {
  const { schema } = engine.db
  await engine.db.query(`update ${schema}.subscriptions set rate_per_second = $2 where no = $1`, [
    no,
    ratePerSecond,
  ])
}

async function seeHandler({ db }: Engine, no: number): Promise<void> {
  await db.query(
    `update ${db.schema}.subscriptions set handler_seen_at = ${db.schema}.clock() where no = $1`,
    [no],
  )
}

/** How many deliveries may be leased now, which are then leased as far as the bucket is concerned. */
function spendAll(engine: Engine, no: number): Promise<number> {
  return engine.db.transaction(async (tx) => {
    const room = (await takeTurn(tx, engine.db, [no])).get(no) ?? 0
    const deliveries = Array.from({ length: Math.min(room, 1_000) }, () => ({}))
    await spend(tx, engine.db, [{ subscription: no, deliveries }] as never)
    return room
  })
}

describe('when the clock steps back by an hour', () => {
  test.each([0.5, 1, 1_000_000])('a queue with %d per second goes on', async (ratePerSecond) => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await limitRate(engine, no, ratePerSecond)
    expect(await spendAll(engine, no)).toBeGreaterThan(0)
    await engine.moveClock(-hourMs)
    expect(await spendAll(engine, no)).toBe(Math.max(ratePerSecond, 1))
    // And no faster than before.
    await limitRate(engine, no, 0.001)
    expect(await spendAll(engine, no)).toBeLessThanOrEqual(1)
    expect(await spendAll(engine, no)).toBe(0)
  })

  test('a replay with a rate goes on', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const ids = await engine.publish({}, {}, {})
    for (const delivery of await engine.lease(no)) await engine.settle(delivery)
    const plan = planReplay({ eventIds: ids, ratePerSecond: 0.01 })
    await createReplay(engine.db, { plan, subscription: no, by: 'olga', identical: 'same' })
    expect(await stepReplay(engine.db)).toBeDefined()
    expect(await stepReplay(engine.db)).toBeUndefined()
    await engine.moveClock(-hourMs)
    expect((await peek(engine.db, [])).replays).toBe(true)
    expect(await stepReplay(engine.db)).toBeDefined()
    expect(await engine.lease(no)).toHaveLength(2)
  })

  test.each(['asc', 'desc'] as const)('events are found by their time, %s', async (order) => {
    const engine = await openEngine()
    const note = {}
    const before = await engine.publish(...Array(50).fill(note))
    await engine.moveClock(-hourMs)
    const after = await engine.publish(...Array(80).fill(note))
    const middle = new Date(Date.now() - hourMs / 2)
    const list = async (times: { createdFrom?: Date; createdTo?: Date }) => {
      const page = await listEvents(engine.db, { ...times, order, limit: 100 })
      expect(page).toMatchObject({ total: page.events.length, totalIsEstimate: false })
      return page.events.map(({ id }) => id).sort((a, b) => a - b)
    }
    expect(await list({ createdFrom: middle })).toEqual(before)
    expect(await list({ createdTo: middle })).toEqual(after)
    expect(await list({ createdFrom: middle, createdTo: new Date(Date.now() + hourMs) })).toEqual(before)
  })

  test('a replay of a time covers what was published then, before the step and after it', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.publish({}, {}, {})
    await engine.moveClock(-hourMs)
    await engine.publish({}, {}, {}, {}, {})
    const middle = new Date(Date.now() - hourMs / 2)
    const count = (times: { from?: Date; to?: Date }) =>
      engine.db.transaction((tx) => countReplay(tx, engine.db, { plan: planReplay(times), subscription: no }))
    expect(await count({ from: middle })).toMatchObject({ total: 3, totalIsEstimate: false })
    expect(await count({ to: middle })).toMatchObject({ total: 5, totalIsEstimate: false })
  })

  test('dead letters from before the step are recovered, those from after the call are not', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const ids = await engine.publish({}, {}, {}, {})
    const [first, second, third, fourth] = await engine.lease(no)
    const bury = (delivery: LeasedDelivery | undefined) =>
      engine.settle(delivery as LeasedDelivery, { settlement: 'buried', reason: 'no' })
    for (const delivery of [first, fourth]) await bury(delivery)
    await engine.moveClock(-hourMs)
    await bury(second)
    const plan = planRecover({ since: new Date(0) })
    await createReplay(engine.db, { plan, subscription: no, by: 'olga', identical: 'same' })
    await bury(third)
    await engine.moveClock(2 * hourMs)
    const replay = await stepReplay(engine.db)
    expect(await getReplay(engine.db, replay as string)).toMatchObject({
      ...{ state: 'completed', total: 3, done: 3 },
    })
    const again = (await engine.lease(no)).map(({ event }) => event.id).sort()
    expect(again).toEqual([ids[0], ids[1], ids[3]])
  })

  test('a replay that has ended stands for identical calls for ten minutes, not for the hour', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const eventIds = await engine.publish({})
    for (const delivery of await engine.lease(no)) await engine.settle(delivery)
    const plan = planReplay({ eventIds })
    const create = () => createReplay(engine.db, { plan, subscription: no, by: 'olga', identical: 'same' })
    const { id } = await create()
    await stepReplay(engine.db)
    await engine.moveClock(-hourMs)
    await reclaim(engine.db)
    await engine.moveClock(9 * 60_000)
    expect(await create()).toEqual({ id, isNew: false })
    await engine.moveClock(2 * 60_000)
    expect(await create()).toMatchObject({ isNew: true })
  })

  test('the lease of a worker that vanished ends after its time', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.publish({ orderingKey: 'a' })
    const { event } = only(await engine.lease(no))
    await engine.moveClock(-hourMs)
    expect((await peek(engine.db, [])).overdue).toBe(true)
    expect((await reclaim(engine.db)).runs).toBe(0)
    expect((await peek(engine.db, [])).overdue).toBe(false)
    await engine.moveClock(15_000)
    expect((await reclaim(engine.db)).runs).toBe(0)
    await engine.moveClock(16_000)
    expect((await reclaim(engine.db)).runs).toBe(1)
    expect(only(await engine.lease(no)).event.id).toBe(event.id)
  })

  test('a worker that lives on does not hide that from those who take back leases', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.publish({})
    await engine.lease(no)
    await engine.moveClock(-hourMs)
    await registerWorker(engine.db, 'host:1')
    await reclaim(engine.db)
    await engine.moveClock(31_000)
    expect((await reclaim(engine.db)).runs).toBe(1)
  })

  test('taking back leases does not deadlock with a process that tells that several workers live', async () => {
    const engine = await openEngine()
    const { db } = engine
    const first = await registerWorker(db, 'first')
    const second = await registerWorker(db, 'second')
    // The row that was written last is found last: now the second worker is found before the first.
    await registerWorker(db, 'first')
    await engine.moveClock(-hourMs)
    let reclaiming: Promise<unknown> = Promise.resolve()
    await db.transaction(async (tx) => {
      const lock = (no: number, how: string) =>
        tx.query(`select no from ${db.schema}.workers where no = $1 for update ${how}`, [no])
      await lock(first, '')
      reclaiming = reclaim(db)
      await eventually('reclaim waits for the first worker', async () => {
        const waits =
          'select pid from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))'
        return (await tx.query(waits)).rows.length > 0
      })
      expect((await lock(second, 'nowait')).rows).toEqual([{ no: second }])
    })
    await reclaiming
    expect((await peek(db, [])).overdue).toBe(false)
  })

  test('a retry waits no longer than it was told to, and a delayed event until its time', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [id] = await engine.publish({}, { runAt: new Date(Date.now() + hourMs) })
    await engine.settle(only(await engine.lease(no)), { settlement: 'retried', afterMs: 60_000 })
    await engine.moveClock(-hourMs)
    await reclaim(engine.db)
    await engine.moveClock(30_000)
    expect(await engine.lease(no)).toEqual([])
    await engine.moveClock(31_000)
    expect(only(await engine.lease(no)).event.id).toBe(id)
    await engine.moveClock(hourMs)
    expect(await engine.lease(no)).toEqual([])
    await engine.moveClock(hourMs)
    expect(await engine.lease(no)).toHaveLength(1)
  })

  test('the lease of a pull worker that was renewed for hours and vanished ends after its time', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.db.query(`update ${engine.db.schema}.subscriptions set via = 'pull' where no = $1`, [no])
    await engine.publish({ orderingKey: 'a' })
    const { run } = only(await engine.lease(no))
    for (let renewals = 0; renewals < 4; renewals++) {
      await engine.moveClock(hourMs / 2)
      await heartbeat(engine.db, [{ runId: run.id, token: run.token, leaseMs: 30_000, begun: null }])
    }
    await registerWorker(engine.db, 'host:1')
    await engine.moveClock(-hourMs)
    expect((await reclaim(engine.db)).runs).toBe(0)
    await engine.moveClock(31_000)
    expect((await reclaim(engine.db)).runs).toBe(1)
  })

  test('the memory queue of a process that vanished is taken over after the usual time', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await claimMemory(engine.db, { subscription: no, token: 1, worker: 'vanished' })
    await engine.moveClock(-hourMs)
    const next = { subscription: no, token: 2, worker: 'next' }
    expect(await claimMemory(engine.db, next)).toMatchObject({ worker: 'vanished' })
    await engine.moveClock(5_001)
    expect(await claimMemory(engine.db, next)).toMatchObject({ crashes: 1 })
  })

  test.each([0, 30_000])(
    'a memory queue that its process has let go of can be claimed after the step (by one that waits %s ms)',
    async (vacantMs) => {
      const engine = await openEngine()
      const no = await engine.subscribe('s', ['note'])
      const claim = { subscription: no, token: 1, worker: 'first' }
      await claimMemory(engine.db, claim)
      await releaseMemory(engine.db, claim)
      await engine.moveClock(-hourMs)
      const next = { subscription: no, token: 2, worker: 'next' }
      expect(await claimMemory(engine.db, next, vacantMs)).toMatchObject({ crashes: 0 })
    },
  )

  test('a retry that a memory queue loads after the step waits no longer than it was told to', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const claim = { subscription: no, token: 1, worker: 'one' }
    await claimMemory(engine.db, claim)
    const core = { type: 'note', payloadText: '1', orderingKey: null, createdAtMs: Date.now() }
    const event = storedEvent({ id: 7, ...core })
    const state = { event, laneKey: null, attempts: 1, failures: 1, dueAfterMs: 4_000, lastError: 'not yet' }
    await persistMemory(engine.db, {
      ...{ ...claim, checkpoint: 0, depth: 1, added: [state], changed: [], settled: [], isCleared: false },
      tally: { processed: 0, errors: 0, timed: 0, executionMs: 0, lastId: null },
    })
    await engine.moveClock(-hourMs)
    const loaded = only(await loadMemory(engine.db, { ...claim, after: 0, rowsMax: 10, charsMax: 1_000 }))
    expect(loaded.dueAfterMs).toBeGreaterThan(0)
    expect(loaded.dueAfterMs).toBeLessThanOrEqual(4_000)

    await movePortion(engine.db, { ...claim, ids: [7], left: 0, rowsMax: 10 })
    await forgetMemory(engine.db, claim)
    await engine.moveClock(4_001)
    expect(await engine.lease(no)).toHaveLength(1)
  })

  test('what waits in memory does not wait for the clock to catch up', () => {
    const clock = new MemoryClock()
    clock.set(Date.now())
    const before = clock.now()
    clock.set(before - hourMs)
    expect(clock.now()).toBeGreaterThanOrEqual(before)
  })

  test('an endpoint that is suspended is still probed, and goes on when it is back', async () => {
    const engine = await openEngine()
    const { db } = engine
    const no = await engine.subscribe('s', ['note'])
    await db.query(`update ${db.schema}.subscriptions set status = 'suspended' where no = $1`, [no])
    await db.query(
      `insert into ${db.schema}.endpoints (subscription, url, format, suspended_at, probe_at)
      values ($1, 'http://127.0.0.1', 'standard', ${db.schema}.clock(), ${db.schema}.clock() + interval '60 s')`,
      [no],
    )
    expect(await takeProbes(db, 10)).toEqual([])
    await engine.moveClock(-hourMs)
    expect(await takeProbes(db, 10)).toEqual([no])
    expect(await takeProbes(db, 10)).toEqual([])
    const success = { reached: 1, unreachable: 0, probes: 1, isGone: false, error: null, ageMs: 5 }
    const changes = await reportEndpoints(db, [{ subscription: no, ...success }])
    expect(changes).toMatchObject([{ before: 'suspended', status: 'active' }])
  })

  test('an endpoint that stays suspended is paused after 72 hours, not after 73', async () => {
    const engine = await openEngine()
    const { db } = engine
    const no = await engine.subscribe('s', ['note'])
    await db.query(
      `insert into ${db.schema}.endpoints (subscription, url, format) values ($1, 'http://127.0.0.1', 'standard')`,
      [no],
    )
    const failure = { subscription: no, reached: 0, isGone: false, error: 'refused', ageMs: 5 }
    const failed = await reportEndpoints(db, [{ ...failure, unreachable: 3, probes: 0 }])
    expect(failed).toMatchObject([{ status: 'suspended' }])
    await engine.moveClock(-hourMs)
    await reclaim(db)
    await engine.moveClock(72 * hourMs - 60_000)
    const probe = { ...failure, unreachable: 1, probes: 1 }
    expect(await reportEndpoints(db, [probe])).toEqual([])
    await engine.moveClock(120_000)
    expect(await reportEndpoints(db, [probe])).toMatchObject([{ status: 'paused' }])
  })

  test('a subscription whose handler is gone is told of after ten minutes, not after the hour', async () => {
    const engine = await openEngine()
    await seeHandler(engine, await engine.subscribe('s', ['note']))
    await engine.moveClock(-hourMs)
    await reclaim(engine.db)
    await engine.moveClock(9 * 60_000)
    expect(await abandonedSubscriptions(engine.db)).toEqual([])
    await engine.moveClock(2 * 60_000)
    expect(await abandonedSubscriptions(engine.db)).toEqual(['s'])
  })

  test('a subscription that somebody is changing does not hold up those who take back leases', async () => {
    const engine = await openEngine()
    const { db } = engine
    const no = await engine.subscribe('s', ['note'])
    await seeHandler(engine, no)
    await engine.moveClock(-hourMs)
    await db.transaction(async (tx) => {
      await tx.query(`select no from ${db.schema}.subscriptions where no = $1 for update`, [no])
      await reclaim(db)
      expect((await peek(db, [])).overdue).toBe(true)
    })
    await reclaim(db)
    expect((await peek(db, [])).overdue).toBe(false)
    await engine.moveClock(11 * 60_000)
    expect(await abandonedSubscriptions(db)).toEqual(['s'])
  })

  test('the rate of a queue does not grow with every look', async () => {
    const engine = await openEngine()
    const { db } = engine
    const no = await engine.subscribe('s', ['note'])
    const addUp = async (processed: number) => {
      const row = `insert into ${db.schema}.queue_tallies (subscription, processed, errors, timed, execution_ms)`
      await db.query(`${row} values ($1, $2, 0, 0, 0)`, [no, processed])
      await addUpTallies(db)
    }
    await addUp(0)
    await engine.moveClock(-hourMs)
    for (let minute = 0; minute < 20; minute++) {
      await engine.moveClock(60_000)
      await addUp(60)
    }
    const { rows } = await db.query<{ rate: number }>(
      `select ended_per_second as rate from ${db.schema}.queue_counters where subscription = $1`,
      [no],
    )
    expect(rows[0]?.rate).toBeLessThan(1.1)
  })

  test('a queue that was full takes events again if nobody measures it any more', async () => {
    const engine = await openEngine()
    const { db } = engine
    const no = await engine.subscribe('s', ['note'])
    await db.query(
      `insert into ${db.schema}.queue_pressure (subscription, level, is_refusing, depth, latest_id, measured_at)
      values ($1, 'full', true, 10, 0, ${db.schema}.clock())`,
      [no],
    )
    await engine.moveClock(-hourMs)
    await engine.publish({})
    expect(await engine.lease(no)).toHaveLength(1)
  })

  test('queues are still recorded, and old data is still removed', async () => {
    const engine = await openEngine()
    const { db } = engine
    await engine.subscribe('s', ['note'])
    const takeTurn = async (holder: string) =>
      (await db.once(takePruneTurn(db), [holder, 600_000], { durable: false })).length > 0
    await engine.moveClock(60_000)
    await checkpoint(db, { queues: null, reason: 'interval' })
    expect(await takeTurn('vanished')).toBe(true)
    expect(await takeTurn('next')).toBe(false)
    const checked = `select count(*)::int as count from ${db.schema}.event_queue_state where checked_at > ${db.schema}.clock()`
    await engine.moveClock(-hourMs)
    expect((await db.query<{ count: number }>(checked)).rows[0]?.count).toBeGreaterThan(0)
    await checkpoint(db, { queues: null, reason: 'interval' })
    expect((await db.query<{ count: number }>(checked)).rows[0]?.count).toBe(0)
    expect(await takeTurn('next')).toBe(true)
  })

  test('a queue that is made anew with an old name has a state of its own', async () => {
    const engine = await openEngine()
    const { db } = engine
    const first = await engine.subscribe('s', ['note'])
    await db.query(`update ${db.schema}.subscriptions set status = 'deleted' where no = $1`, [first])
    await engine.moveClock(-hourMs)
    await engine.subscribe('s', ['note'])
    const { rows } = await db.query(`select status from ${db.schema}.event_queue_state where id = 's'`)
    expect(rows).toEqual([{ status: 'active' }])
  })
})
