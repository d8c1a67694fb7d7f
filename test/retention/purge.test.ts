import { expect, test } from 'vitest'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { dayMs, type Kept, useKept } from './setup.ts'

const { open } = useKept('purge')

const succeeded = { kind: 'succeeded' } as const
const failed = { kind: 'failed', reason: 'no', permanent: true } as const
const secret = { name: 'Ada \u0000 Lovelace' }

async function publishOne(kept: Kept): Promise<number> {
  await kept.hub.subscribe('t', { name: 'one' })
  const { id } = await kept.hub.publish({
    ...{ type: 't', payload: secret, title: 'Ada', description: 'Ada', correlationId: 'c' },
  })
  return id
}

/** Whether the name is left anywhere. */
async function isKnown({ db }: Kept): Promise<boolean> {
  const { rows } = await db.query<{ dump: string }>(
    `select coalesce((select string_agg(e::text, '') from ${db.schema}.events e), '')
      || coalesce((select string_agg(d::text, '') from ${db.schema}.dead_letters d), '')
      || coalesce((select string_agg(x::text, '') from ${db.schema}.exchanges x), '')
      || coalesce((select string_agg(m::text, '') from ${db.schema}.memory_events m), '')
      || coalesce((select string_agg(q::text, '') from ${db.schema}.event_queue_state q), '') as dump`,
  )
  return rows[0]?.dump.includes('Ada') === true
}

test('what the event said is gone, its audit stays', async () => {
  const kept = await open()
  const { hub } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  await hub.purge(id, 'asked to')
  const found = await hub.event(id, { logs: true })
  expect(found?.event).toMatchObject({ type: 't', payload: null, title: null, description: null })
  expect(found?.event.correlationId).toBe('c')
  expect(found?.purgedAt).toBeInstanceOf(Date)
  expect(found?.progress.status).toBe('COMPLETED')
  expect(found?.logs.map(({ action }) => action)).toEqual(['PICKED', 'COMPLETED'])
  expect(await isKnown(kept)).toBe(false)
})

test('it is in the admin log, once, and doing it twice is doing it once', async () => {
  const kept = await open()
  const { hub, db } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  const first = await hub.retention.purge(id, 'asked to', { by: 'somebody' })
  await kept.clock.advance(60_000)
  expect(await hub.retention.purge(id, 'again')).toEqual(first)
  const { rows } = await db.query(`select actor, action, target, details from ${db.schema}.admin_log`)
  expect(rows).toEqual([
    { actor: 'somebody', action: 'event.purge', target: String(id), details: { reason: 'asked to' } },
  ])
})

test('one that waits or is under way is refused, and left as it is', async () => {
  const kept = await open()
  const { hub } = kept
  const id = await publishOne(kept)
  await expect(hub.purge(id, 'x')).rejects.toMatchObject({ code: 'NOT_FINISHED', details: { eventId: id } })
  const runs = await leaseRuns(hub, 'one')
  await expect(hub.purge(id, 'x')).rejects.toMatchObject({ code: 'NOT_FINISHED' })
  await settleRuns(hub, runs, { kind: 'released' })
  await hub.cancel([id])
  await hub.purge(id, 'x')
  expect(await isKnown(kept)).toBe(false)
})

test('the hub answers when the event was purged, and refuses a misspelt name of who asks', async () => {
  const { hub, db } = await open()
  const { id } = await hub.publish({ type: 'unwanted', payload: 1 })
  const misspelt = hub.purge(id, 'asked to', { bye: 'Ada' } as object)
  await expect(misspelt).rejects.toMatchObject({ code: 'BAD_OPTION', details: { option: 'bye' } })
  const { rows } = await db.query(`select purged_at from ${db.schema}.events where id = ${id}`)
  expect(rows).toEqual([{ purged_at: null }])
  expect(await hub.purge(id, 'asked to', { by: 'Ada' })).toEqual({ eventId: id, purgedAt: expect.any(Date) })
})

test('an event that never was is not found', async () => {
  const { hub } = await open()
  await expect(hub.purge(7, 'x')).rejects.toMatchObject({ code: 'NOT_FOUND' })
})

test('snapshots are erased, also when the event itself is gone', async () => {
  const kept = await open()
  const { hub } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  const [letter] = (await hub.deadLetters()).deadLetters
  await hub.retryDeadLetter(letter?.id as string)
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  await kept.clock.advance(8 * dayMs)
  await hub.prune()
  expect(await hub.event(id)).toBeUndefined()
  expect(await isKnown(kept)).toBe(true)
  await hub.purge(id, 'asked to')
  expect(await isKnown(kept)).toBe(false)
  const [after] = (await hub.deadLetters({ includeRedriven: true })).deadLetters
  expect(after).toMatchObject({ id: letter?.id, deliveryId: letter?.deliveryId })
  expect(JSON.parse(after?.eventText as string)).toMatchObject({ id, type: 't', payload: null, title: null })
})

test('what receivers answered is erased', async () => {
  const kept = await open()
  const { hub, db } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  await db.query(
    `insert into ${db.schema}.exchanges (event_id, subscription, token, attempt, started_at, request, response, timings)
    values ($1, 1, 1, 1, ${db.schema}.clock(), '{"url": "http://x"}', '{"headers": {"a": "b"}, "body": "Ada \\u0000", "bytes": 9}', '{}')`,
    [id],
  )
  await hub.purge(id, 'asked to')
  const { rows } = await db.query(`select response, request from ${db.schema}.exchanges`)
  expect(rows).toEqual([
    { response: { headers: { a: 'b' }, body: '', bytes: 9 }, request: { url: 'http://x' } },
  ])
})

test('a purged event is never delivered again', async () => {
  const kept = await open()
  const { hub } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  await hub.purge(id, 'asked to')
  const [letter] = (await hub.deadLetters()).deadLetters
  await expect(hub.retryDeadLetter(letter?.id as string)).rejects.toMatchObject({
    code: 'NOT_RETRYABLE',
    details: { reason: 'its event was purged' },
  })
  expect(await hub.redrive([letter?.id as string])).toEqual([])
  expect((await hub.retryDeadLetters({ since: new Date(0) })).redriven).toEqual([])
  await expect(hub.deliveries.retry(letter?.deliveryId as string)).rejects.toMatchObject({
    code: 'NOT_RETRYABLE',
    details: { reason: 'its event was purged' },
  })
  const recovery = await hub.recover('one', { since: new Date(0) })
  const replay = await hub.replay('one', { eventIds: [id] })
  while (await hub.sweep());
  expect(await hub.getReplay(recovery.replay.id)).toMatchObject({ state: 'completed', done: 0, removed: 1 })
  expect(await hub.getReplay(replay.replay.id)).toMatchObject({ state: 'completed', done: 0, removed: 1 })
  expect(await leaseRuns(hub, 'one')).toEqual([])
})

test('a lane that stopped at one can be skipped, and not retried', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.subscribe('t', { name: 'one', onExhausted: 'block' })
  const { id } = await hub.publish({ type: 't', payload: secret, orderingKey: 'k' })
  const next = await hub.publish({ type: 't', payload: 2, orderingKey: 'k' })
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  await hub.purge(id, 'asked to')
  await expect(hub.unblock('one', 'k', 'retry')).rejects.toMatchObject({ code: 'NOT_RETRYABLE' })
  await hub.unblock('one', 'k', 'skip')
  const [run] = await leaseRuns(hub, 'one')
  expect(run?.deliveries.map(({ event }) => event.id)).toEqual([next.id])
})

test('of a redrive and a purge at the same time one wins', async () => {
  const kept = await open()
  const { hub, db } = kept
  const id = await publishOne(kept)
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  const [letter] = (await hub.deadLetters()).deadLetters
  let purging: Promise<unknown> | undefined
  // While somebody holds the letter both wait for it.
  await db.transaction(async (tx) => {
    await tx.query(`select id from ${db.schema}.dead_letters for update`)
    purging = Promise.allSettled([hub.purge(id, 'x'), hub.redrive([letter?.id as string])])
    await expect
      .poll(async () => {
        const { rows } = await db.query<{ count: number }>(
          `select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        return rows[0]?.count
      })
      .toBe(2)
  })
  await purging
  const [run] = await leaseRuns(hub, 'one')
  const purgedAt = (await hub.event(id))?.purgedAt
  expect(run === undefined).toBe(purgedAt !== null)
})

test('the document of its queue forgets it too', async () => {
  const kept = await open()
  const { hub } = kept
  const id = await publishOne(kept)
  await hub.queues.checkpoint('one')
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  expect(await isKnown(kept)).toBe(true)
  await hub.purge(id, 'asked to')
  expect(await isKnown(kept)).toBe(false)
})

test('one that a queue in memory still has is not finished', async () => {
  const kept = await open()
  const { hub } = kept
  const end = createSignal()
  hub.on('t', { name: 'buries', storage: 'memory' }, (_, attempt) => attempt.bury('no'))
  hub.on('t', { name: 'waits', storage: 'memory' }, () => end.given)
  await hub.start()
  const { id } = await hub.publish({ type: 't', payload: secret })
  await eventually('it is buried', async () => (await hub.deadLetters()).deadLetters.length === 1)
  await hub.memory.persist()
  await expect(hub.purge(id, 'asked to')).rejects.toMatchObject({ code: 'NOT_FINISHED' })
  end.give()
  await eventually('it is settled', () => hub.memory.views.every(({ depth }) => depth === 0))
  await hub.memory.persist()
  await hub.purge(id, 'asked to')
  expect(await isKnown(kept)).toBe(false)
})
