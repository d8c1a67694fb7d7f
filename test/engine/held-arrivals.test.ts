import { expect, test } from 'vitest'
import { Admitter } from '../../src/engine/admit.ts'
import { cancelEvents } from '../../src/engine/cancel.ts'
import { expire } from '../../src/engine/expire.ts'
import { forgetBlockedLanes } from '../../src/engine/orphans.ts'
import { peek } from '../../src/engine/peek.ts'
import { drawMemory, laneName } from '../../src/memory/draw-memory.ts'
import { finishDrains } from '../../src/queues/queue-upkeep.ts'
import { setStatus } from '../../src/subscriptions/subscriptions.ts'
import { admitAll, type Engine, laneOf, only, rowsRead, useEngines } from '../support/engine.ts'
import { eventually } from '../support/signal.ts'

const openEngine = useEngines('held_arrivals')

test('what a draining queue holds enters its lane in order when it is resumed, before what comes then', async () => {
  const { engine, no } = await drainingEngine()
  const held = []
  // Each by itself, so that they are more rows than one admission lets in.
  for (let n = 0; n < 600; n++) held.push(...(await engine.publish({ orderingKey: 'k' })))
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual([])
  expect((await peek(engine.db, [])).arrivals).toBe(false)

  await setFence(engine, no, null)
  expect((await peek(engine.db, [])).arrivals).toBe(true)
  const late = await engine.publish({ orderingKey: 'k' })
  await new Admitter(engine.db).admit()
  const later = await engine.publish({ orderingKey: 'k' })
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual([...held, ...late, ...later])
  expect((await peek(engine.db, [])).arrivals).toBe(false)
})

test('what a draining queue holds can be cancelled', async () => {
  const { engine, no } = await drainingEngine()
  const [first, second] = (await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })) as [
    number,
    number,
  ]
  const request = { eventIds: [first], subscription: null, reason: 'test' }
  expect(await cancelEvents(engine.db, new Admitter(engine.db), request)).toContainEqual({
    eventId: first,
    subscription: no,
    told: false,
  })
  await setFence(engine, no, null)
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual([second])
})

test('what a draining queue holds expires in time', async () => {
  const { engine, no } = await drainingEngine()
  const [id] = await engine.publish({ orderingKey: 'k', expiresAt: new Date(Date.now() + 60_000) })
  await admitAll(engine)
  await engine.moveClock(120_000)
  expect(await expire(engine.db)).toContainEqual(expect.objectContaining({ subscription: no, eventId: id }))
})

test('what is held under a concurrency limit passes its gate once the queue is resumed', async () => {
  const { engine, no } = await drainingEngine()
  await engine.db.query(`update ${engine.db.schema}.subscriptions set key_concurrency = 1 where no = $1`, [
    no,
  ])
  const [first, second] = await engine.publish({ concurrencyKey: 'g' }, { concurrencyKey: 'g' })
  await admitAll(engine)
  expect(await engine.lease(no)).toEqual([])
  await setFence(engine, no, null)
  const delivery = only(await engine.lease(no))
  expect(delivery.event.id).toBe(first)
  await engine.settle(delivery)
  expect(only(await engine.lease(no)).event.id).toBe(second)
})

test('a queue that is drained again finishes what it had held before', async () => {
  const { engine, no } = await drainingEngine()
  const held = await engine.publish({ orderingKey: 'k' })
  await admitAll(engine)
  const fence = await drain(engine, no)
  expect(fence).toBeGreaterThan(held[0] as number)
  // Nobody publishes: what is held alone tells that there is something to admit.
  expect((await peek(engine.db, [])).arrivals).toBe(true)
  await engine.publish({ orderingKey: 'k' })
  await admitAll(engine)
  expect(await laneOf(engine, no, 'k')).toEqual(held)
  expect(await finishDrains(engine.db)).toEqual([])
})

test('what comes after a second drain began does not pass it together with what came before', async () => {
  const { engine, no } = await drainingEngine()
  const held = []
  for (let n = 0; n < 600; n++) held.push(...(await engine.publish({ orderingKey: 'other' })))
  await admitAll(engine)
  await setFence(engine, no, null)
  const before = await engine.publish({ orderingKey: 'k' })
  await drain(engine, no)
  await engine.publish({ orderingKey: 'k' })
  await admitAll(engine)
  expect(await laneOf(engine, no, 'other')).toEqual(held)
  expect(await laneOf(engine, no, 'k')).toEqual(before)
})

test('a drain that begins during an admission waits for it, so that no lane has something beyond the fence', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'])
  await engine.subscribe('others', ['note'])
  const { rows } = await db.query<{ id: string }>(`select id from ${db.schema}.subscriptions where no = $1`, [
    no,
  ])
  const id = rows[0]?.id as string
  let draining: Promise<unknown> = Promise.resolve()
  let last = 0
  await db.transaction(async (tx) => {
    await tx.query(`select ${db.schema}.admit(null, null, null, null, 1000)`)
    draining = db.transaction((other) => setStatus(other, db, { id, status: 'draining' }))
    await eventually('the drain waits', async () => {
      const { rows } = await tx.query(
        `select 1 from pg_locks where not granted and locktype = 'advisory'
          and database = (select oid from pg_database where datname = current_database())`,
      )
      return rows.length > 0
    })
    const drawn = await tx.query<{ last: number }>(`select nextval('${db.schema}.event_ids')::int as last`)
    last = drawn.rows[0]?.last as number
  })
  await draining
  const fence = await db.query<{ fence: number }>(
    `select drain_fence::int as fence from ${db.schema}.subscriptions where no = $1`,
    [no],
  )
  expect(fence.rows).toEqual([{ fence: last }])
})

test('what is held by a drain costs admissions and looks nothing', async () => {
  const { engine, no } = await drainingEngine()
  await engine.publish(...Array.from({ length: 900 }, (_, n) => ({ orderingKey: `k${n}` })))
  await admitAll(engine)
  const { rows } = await engine.db.query(`select 1 from ${engine.db.schema}.inbox`)
  expect(rows).toEqual([])
  const { schema } = engine.db
  await engine.db.transaction(
    async (tx) => {
      const before = await rowsRead(tx, `${schema}.runs`)
      const admitted = await tx.query(
        `select moved, drained from ${schema}.admit(null, null, null, null, 1000)`,
      )
      expect(admitted.rows).toEqual([{ moved: 0, drained: true }])
      const looked = await tx.query(
        `select ${schema}.has_enterable($1, drain_fence) as found
      from ${schema}.subscriptions where no = $1`,
        [no],
      )
      expect(looked.rows).toEqual([{ found: false }])
      expect((await rowsRead(tx, `${schema}.runs`)) - before).toBeLessThan(100)
    },
    { indexPlans: true },
  )
  expect(await peek(engine.db, [no])).toMatchObject({ arrivals: false })
})

test('a lane of which something is held is busy for a memory queue, so that nothing overtakes it', async () => {
  const { engine, no } = await drainingEngine()
  await engine.publish({ orderingKey: 'k' })
  await admitAll(engine)
  await setFence(engine, no, null)
  const request = { events: 1, types: [], queues: [{ no, token: 1 }], keys: ['k', 'other'] }
  expect([...(await drawMemory(engine.db, request)).busyLanes]).toEqual([laneName(no, 'k')])
})

test('blocked lanes of a subscription that was deleted do not stay', async () => {
  const engine = await openEngine()
  const { db } = engine
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  await engine.publish({ orderingKey: 'k' })
  await engine.settle(only(await engine.lease(no)), { settlement: 'buried', reason: 'no luck' })
  expect(await forgetBlockedLanes(db)).toBe(false)
  const states = () => db.query(`select state::text from ${db.schema}.runs`).then(({ rows }) => rows)
  expect(await states()).toEqual([{ state: 'blocked' }])
  await db.query(`update ${db.schema}.subscriptions set status = 'deleted' where no = $1`, [no])
  await forgetBlockedLanes(db)
  expect(await states()).toEqual([])
})

async function drainingEngine(): Promise<{ engine: Engine; no: number }> {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  // Others want the events too, or they would be refused.
  await engine.subscribe('others', ['note'])
  await drain(engine, no)
  return { engine, no }
}

/** Returns the fence: the last event id that was drawn. */
async function drain(engine: Engine, no: number): Promise<number> {
  const { rows } = await engine.db.query<{ last: number }>(
    `select nextval('${engine.db.schema}.event_ids')::int as last`,
  )
  const fence = rows[0]?.last as number
  await setFence(engine, no, fence)
  return fence
}

async function setFence({ db }: Engine, no: number, fence: number | null): Promise<void> {
  await db.query(
    `update ${db.schema}.subscriptions set drain_fence = $2, status = case when $2::bigint is null then 'active' else 'draining' end
    where no = $1`,
    [no, fence],
  )
}
