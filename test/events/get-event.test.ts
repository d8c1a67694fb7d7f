import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listDeadLetters } from '../../src/deliveries/dead-letters.ts'
import { discardLetter, redrive } from '../../src/deliveries/repair.ts'
import { type DeliveryState, eventStatus } from '../../src/domain/status.ts'
import { reclaim } from '../../src/engine/reclaim.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { listEvents } from '../../src/events/list-events.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('events', { schemas: 'emptied' })

async function details(engine: Engine, id: number) {
  const found = await getEvent(engine.db, { id, logs: 'with' })
  if (found === undefined) throw new Error(`no event ${id}`)
  // A list says the same as a look at one.
  const listed = (await listEvents(engine.db, { limit: 1000 })).events.find((event) => event.id === id)
  expect(listed).toMatchObject({ ...found.progress })
  return found
}

function actions(found: { logs: readonly { action: string }[] }): string[] {
  return found.logs.map(({ action }) => action)
}

test('an unknown id finds nothing', async () => {
  const { db } = await openEngine()
  expect(await getEvent(db, { id: 77, logs: 'with' })).toBeUndefined()
})

test('a new event is PENDING, with the failures its policy allows', async () => {
  const engine = await openEngine()
  const id = only(
    await engine.publish({ type: null, title: 'Send mail', tags: 'email', payload: { to: 'alice' } }),
  )
  const { event, progress, deliveries, logs } = await details(engine, id)
  expect(event).toMatchObject({ id, title: 'Send mail', payload: { to: 'alice' } })
  expect(progress).toEqual({
    status: 'PENDING',
    attempts: 0,
    retryCount: 0,
    maxRetries: 3,
    nextRetryAt: null,
    updatedAt: event.createdAt,
  })
  expect(only(deliveries)).toMatchObject({
    subscription: 0,
    name: 'work',
    state: 'waiting',
    attempts: 0,
    worker: null,
  })
  expect(logs).toEqual([])
})

test('an event of its own max_retries keeps it', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email', maxRetries: 7 }))
  expect((await details(engine, id)).progress.maxRetries).toBe(7)
})

test('a leased event is PROCESSING and picked, before anything is settled', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email' }))
  const { run } = only(await engine.lease(0))
  const found = await details(engine, id)
  expect(found.progress).toMatchObject({ status: 'PROCESSING', attempts: 1, retryCount: 0 })
  expect(only(found.deliveries)).toMatchObject({
    state: 'leased',
    attempts: 1,
    leasedUntil: run.leasedUntil,
    worker: 'host:1',
  })
  expect(only(found.logs)).toMatchObject({ action: 'PICKED', workerId: 'host:1' })
  expect(found.progress.updatedAt).toEqual(only(found.logs).createdAt)
})

test('what a lease owns but has not begun is PENDING', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email' }))
  await engine.lease(0, { begins: 'reported' })
  const found = await details(engine, id)
  expect(found.progress.status).toBe('PENDING')
  expect(found.logs).toEqual([])
})

test('a failure and then a success are logged in the order of the lifecycle', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email' }))
  const first = only(await engine.lease(0))
  await engine.settle(first, {
    settlement: 'retried',
    afterMs: 300_000,
    startedAfterMs: 1000,
    statusCode: 503,
    reason: 'Service unavailable, will retry',
    executionMs: 8000,
  })
  const failed = await details(engine, id)
  expect(failed.progress).toMatchObject({ status: 'PENDING', attempts: 1, retryCount: 1 })
  expect(failed.progress.nextRetryAt).toEqual(only(failed.deliveries).nextAt)
  expect(failed.progress.nextRetryAt).not.toBeNull()
  expect(only(failed.deliveries)).toMatchObject({ failures: 1, lastError: 'Service unavailable, will retry' })

  await engine.moveClock(300_001)
  await engine.settle(only(await engine.lease(0)), { statusCode: 200, executionMs: 1250 })
  const done = await details(engine, id)
  expect(done.progress).toMatchObject({ status: 'COMPLETED', attempts: 2, retryCount: 1, nextRetryAt: null })
  expect(actions(done)).toEqual(['PICKED', 'STARTED', 'FAILED', 'PICKED', 'COMPLETED'])
  expect(done.logs[2]).toMatchObject({
    statusCode: 503,
    errorMessage: 'Service unavailable, will retry',
    executionTimeMs: 8000,
  })
  expect(done.logs[4]).toMatchObject({ statusCode: 200, executionTimeMs: 1250, workerId: 'host:1' })
  const ids = done.logs.map((entry) => entry.id)
  expect(new Set(ids).size).toBe(5)
  expect(ids).toEqual([...ids].sort((a, b) => a - b))
  expect(ids.slice(0, 3)).toEqual(failed.logs.map((entry) => entry.id))
})

test('a lease that expired is a failure, and a late success does not pick the event again', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email' }))
  const late = only(await engine.lease(0))
  await engine.moveClock(31_000)
  await reclaim(engine.db)
  const expired = await details(engine, id)
  expect(actions(expired)).toEqual(['PICKED', 'FAILED'])
  expect(expired.logs[1]).toMatchObject({ errorMessage: 'lease expired' })
  expect(expired.progress).toMatchObject({ status: 'PENDING', retryCount: 1 })

  await engine.settle(late)
  const done = await details(engine, id)
  expect(actions(done)).toEqual(['PICKED', 'FAILED', 'COMPLETED'])
  expect(done.progress.status).toBe('COMPLETED')
})

test('a buried delivery makes the event FAILED, and redriven it is PENDING again', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order.*'])
  const id = only(await engine.publish({ type: 'order.created' }))
  await engine.settle(only(await engine.lease(orders)), { settlement: 'buried', reason: 'no such customer' })
  const buried = await details(engine, id)
  expect(buried.progress).toMatchObject({ status: 'FAILED', maxRetries: 5, retryCount: 1 })
  expect(only(buried.deliveries)).toMatchObject({ state: 'buried', lastError: 'no such customer' })
  expect(only((await listEvents(engine.db, { status: 'FAILED' })).events).id).toBe(id)

  const { deadLetters } = await listDeadLetters(engine.db)
  await redrive(engine.db, { deadLetterIds: [only(deadLetters).id], by: 'olga' })
  const again = await details(engine, id)
  expect(again.progress.status).toBe('PENDING')
  expect(actions(again)).toEqual(['PICKED', 'FAILED', 'REDRIVEN'])
  expect((await listEvents(engine.db, { status: 'FAILED' })).events).toEqual([])
  expect(only((await listEvents(engine.db, { status: 'PENDING' })).events).id).toBe(id)
})

test('a buried head leaves its blocked lane PENDING behind it', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order.*'], { onExhausted: 'block' })
  const [head, next] = await engine.publish(
    { type: 'order.created', orderingKey: 'k' },
    { type: 'order.paid', orderingKey: 'k' },
  )
  const [first] = await engine.lease(orders, { begins: 'reported' })
  await engine.settle(first as never, { settlement: 'buried', reason: 'broken' })
  expect((await details(engine, head as number)).progress.status).toBe('FAILED')
  expect((await details(engine, next as number)).progress.status).toBe('PENDING')
})

test('an event that nobody wants is COMPLETED, or FAILED where that was required', async () => {
  const engine = await openEngine()
  const [unwanted, required] = await engine.publish({ type: 'lost' }, { type: 'lost', requireRoute: true })
  expect((await details(engine, unwanted as number)).progress).toMatchObject({
    status: 'COMPLETED',
    maxRetries: null,
  })
  expect((await details(engine, required as number)).progress.status).toBe('FAILED')
  expect(only((await listEvents(engine.db, { status: 'COMPLETED' })).events).id).toBe(unwanted)
  expect(only((await listEvents(engine.db, { status: 'FAILED' })).events).id).toBe(required)
})

test('an event that was finalized with errors is COMPLETED_WITH_ERRORS', async () => {
  const engine = await openEngine()
  const id = only(await engine.publish({ tags: 'email' }))
  await engine.settle(only(await engine.lease(0)), {
    settlement: 'buried',
    reason: 'one of two',
    cause: 'finalized',
  })
  expect((await details(engine, id)).progress.status).toBe('COMPLETED_WITH_ERRORS')
  expect(only((await listEvents(engine.db, { status: 'COMPLETED_WITH_ERRORS' })).events).id).toBe(id)
  expect((await listEvents(engine.db, { status: 'FAILED' })).total).toBe(0)
})

test('the figures of an event are those of its work delivery', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order.*'])
  const id = only(await engine.publish({ type: 'order.created', tags: 'eu' }))
  await engine.settle(only(await engine.lease(orders)), { settlement: 'retried', afterMs: 1000, failures: 4 })
  expect((await details(engine, id)).progress).toMatchObject({
    retryCount: 0,
    maxRetries: 3,
    nextRetryAt: null,
  })
})

test('SQL and TypeScript agree on the status of every mixture of deliveries', async () => {
  const { db } = await openEngine()
  const states: DeliveryState[] = [
    'waiting',
    'leased',
    'completed',
    'buried',
    'finalized',
    'expired',
    'cancelled',
  ]
  const mixtures = fc.sample(
    fc.tuple(fc.array(fc.constantFrom(...states), { maxLength: 4 }), fc.boolean()),
    500,
  )
  const count = (mixture: readonly DeliveryState[], state: DeliveryState) =>
    mixture.filter((one) => one === state).length
  for (const [mixture, unwanted] of mixtures) {
    const { rows } = await db.query<{ status: string }>(
      `select ${db.schema}.event_status($1, $2, $3, $4, $5, $6, $7, $8) as status`,
      [
        mixture.length,
        ...(['leased', 'waiting', 'cancelled', 'completed', 'finalized', 'expired'] as const).map((state) =>
          count(mixture, state),
        ),
        unwanted,
      ],
    )
    expect([mixture, unwanted, rows[0]?.status]).toEqual([
      mixture,
      unwanted,
      eventStatus({ states: mixture, unwanted }),
    ])
  }
})

test('outbox_events shows what failed for good, with no retry left, until it is retried or discarded', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order.*'])
  const [retried, discarded] = await engine.publish({ type: 'order.created' }, { type: 'order.created' })
  for (const run of await engine.lease(orders)) {
    await engine.settle(run as never, { settlement: 'buried', reason: 'broken' })
  }
  const read = async (condition: string) =>
    (
      await db.query(
        `select id, retry, max_retry from ${db.schema}.outbox_events where ${condition} order by id`,
      )
    ).rows
  expect(await read('retry >= max_retry')).toEqual([
    { id: retried, retry: 5, max_retry: 5 },
    { id: discarded, retry: 5, max_retry: 5 },
  ])
  expect(await read('retry < max_retry')).toEqual([])
  const { deadLetters } = await listDeadLetters(db)
  const letter = (eventId?: number) => deadLetters.find((one) => one.eventId === eventId)?.id as string
  await redrive(db, { deadLetterIds: [letter(retried)], by: 'test' })
  await discardLetter(db, { id: letter(discarded), by: 'test' })
  expect(await read('true')).toEqual([{ id: retried, retry: 0, max_retry: 5 }])
})

test('the views can be read by their names', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order.*'])
  const [done, failed, buried] = await engine.publish(
    { type: 'order.created', orderingKey: 'a' },
    { type: 'order.created', orderingKey: 'b' },
    { type: 'order.created', orderingKey: 'c' },
  )
  const [first, second, third] = await engine.lease(orders)
  await engine.settle(first as never)
  await engine.settle(second as never, { settlement: 'retried', afterMs: 1000, reason: 'busy' })
  await engine.settle(third as never, { settlement: 'buried', reason: 'broken' })
  const read = async (text: string) => (await db.query(text.replaceAll('posthorn.', `${db.schema}.`))).rows

  expect(await read('select id, type, status, attempts from posthorn.event_queue')).toEqual([
    { id: failed, type: 'order.created', status: 'PENDING', attempts: 1 },
  ])
  expect(
    await read('select id, name, group_id, retry, max_retry from posthorn.outbox_events order by id'),
  ).toEqual([
    { id: failed, name: 'order.created', group_id: 'b', retry: 1, max_retry: 5 },
    { id: buried, name: 'order.created', group_id: 'c', retry: 5, max_retry: 5 },
  ])
  expect(
    await read('select event_id, ordering_key_value, status from posthorn.messages order by event_id'),
  ).toEqual([
    { event_id: done, ordering_key_value: 'a', status: 'delivered' },
    { event_id: failed, ordering_key_value: 'b', status: 'failed' },
    { event_id: buried, ordering_key_value: 'c', status: 'dlq' },
  ])
  expect(
    await read('select name, event_types, is_active from posthorn.subscribers order by name'),
  ).toMatchObject([{ name: 'orders', event_types: ['order.*'], is_active: true }, { name: 'work' }])
  const message = only(await read(`select id from posthorn.messages where status = 'dlq'`))
  expect(
    only(await read('select message_id, failure_reason, manual_retry_at from posthorn.dead_letter_queue')),
  ).toEqual({ message_id: message.id, failure_reason: 'broken', manual_retry_at: null })
})
