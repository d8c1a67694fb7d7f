import { expect, test } from 'vitest'
import { checkpoint } from '../../src/queues/checkpoints.ts'
import { dayMs, type Kept, useKept } from '../retention/setup.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { eventually } from '../support/signal.ts'

const { open, hubs } = useKept('queue_records')

const schemaOf = ({ db }: Kept) => db.schema.replaceAll('"', '')

/** A start of a process with this worker id on the same tables. */
async function startAlso(kept: Kept, workerId: string): Promise<void> {
  const { hub } = await hubs.open({ schema: schemaOf(kept), workerId })
  await hub.start()
  await hub.stop()
}

const recovered = async ({ hub }: Kept, queue: string) =>
  (await hub.queues.recoveries(queue)).recoveries.map((one) => [one.worker, one.eventsRecovered])

async function openWithLease(): Promise<Kept> {
  const kept = await open()
  await kept.hub.subscribe('t', { name: 'q' })
  for (const n of [1, 2]) await kept.hub.publish({ type: 't', payload: n })
  await leaseRuns(kept.hub, 'q', { workerId: 'killed', limit: 2 })
  return kept
}

async function complete({ hub }: Kept, queue: string): Promise<void> {
  await settleRuns(hub, await leaseRuns(hub, queue, { limit: 10 }), { kind: 'succeeded' })
}

test('a process that was killed and starts again at once finds its own leases unfinished', async () => {
  const kept = await openWithLease()
  await startAlso(kept, 'killed')
  expect(await recovered(kept, 'q')).toEqual([['killed', 2]])
})

test('what a worker holds that was heard of lately is not recovered; if it was not, its leases are', async () => {
  const kept = await openWithLease()
  await startAlso(kept, 'other')
  expect(await recovered(kept, 'q')).toEqual([])
  await kept.clock.advance(16_000)
  await startAlso(kept, 'other')
  expect(await recovered(kept, 'q')).toEqual([['other', 2]])
})

test('a hub starts also where it cannot record what it found', async () => {
  const kept = await openWithLease()
  await kept.db.query(`drop table ${kept.db.schema}.queue_recoveries`)
  await kept.hub.start()
  expect((await kept.hub.queues.get('q')).depth).toBe(2)
})

test('a round of checkpoints looks at every queue, also where most have done nothing', async () => {
  const kept = await open({ upkeep: true })
  for (let n = 0; n < 120; n++) await kept.hub.subscribe('t', { name: `q${n}` })
  await kept.hub.start()
  await eventually('all are looked at', async () => {
    const { rows } = await kept.db.query<{ count: number }>(
      `select count(*)::int as count from ${kept.db.schema}.event_queue_state where checked_at = '-infinity'`,
    )
    return rows[0]?.count === 0
  })
})

test('the document of a queue is written again only if something has happened in it', async () => {
  const kept = await open()
  const { hub, db, clock } = kept
  await hub.publish({ title: 'task', tags: 'mail', payload: 1 })
  const round = async () => {
    await clock.advance(60_000)
    await checkpoint(db, { queues: null, reason: 'interval' })
  }
  await round()
  await db.query(`create function ${db.schema}.refuse() returns trigger language plpgsql as
    'begin raise exception ''written''; end'`)
  await db.query(`create trigger refuse before update of events on ${db.schema}.event_queue_state
    for each row execute function ${db.schema}.refuse()`)
  await round()
  const { rows } = await db.query<{ isLooked: boolean }>(
    `select checked_at > ${db.schema}.clock() - interval '10 s' as "isLooked" from ${db.schema}.event_queue_state`,
  )
  expect(rows).toEqual([{ isLooked: true }])

  await leaseRuns(hub, 'work', { leaseMs: 600_000 })
  await expect(round()).rejects.toThrow('written')
})

test('a document shows what is being attempted as of its checkpoint, and what has come since the one before', async () => {
  const kept = await open()
  const { hub, db } = kept
  const events = async () => {
    await hub.queues.checkpoint('work')
    const { rows } = await db.query<{ events: { metadata: { processingStartTime?: string } }[] }>(
      `select events from ${db.schema}.event_queue_state where id = 'work'`,
    )
    return rows[0]?.events.map(({ metadata }) => metadata.processingStartTime !== undefined)
  }
  expect(await events()).toEqual([])
  await hub.publish({ title: 'task', tags: 'mail', payload: 1 })
  expect(await events()).toEqual([false])
  await leaseRuns(hub, 'work')
  await hub.publish({ title: 'task', tags: 'mail', payload: 2 })
  expect(await events()).toEqual([true, false])
})

test('checkpoints are found by times however far away, and page by page', async () => {
  const { hub, clock } = await open()
  const ids: string[] = []
  for (let n = 0; n < 4; n++) {
    ids.push((await hub.queues.checkpoint('work')).id)
    await clock.advance(60_000)
  }
  const list = async (filter: object) => {
    const { checkpoints, nextCursor } = await hub.queues.checkpoints('work', filter)
    return { ids: checkpoints.map(({ id }) => id), nextCursor }
  }
  const all = { since: new Date('1900-01-01'), until: new Date('9999-01-01') }
  expect((await list(all)).ids).toEqual(ids)
  expect((await list({ until: new Date('1900-01-01') })).ids).toEqual([])
  expect((await list({ since: new Date('9999-01-01') })).ids).toEqual([])
  for (const order of ['asc', 'desc'] as const) {
    const first = await list({ ...all, limit: 3, order })
    const second = await list({ ...all, limit: 3, order, cursor: first.nextCursor })
    expect([...first.ids, ...second.ids]).toEqual(order === 'asc' ? ids : [...ids].reverse())
  }
})

test('a stop records also how far the queues are that are pulled from', async () => {
  const kept = await open()
  await kept.hub.start()
  await kept.hub.publish({ title: 'task', tags: 'mail', payload: 1 })
  await complete(kept, 'work')
  await kept.hub.stop()
  const { hub } = await hubs.open({ schema: schemaOf(kept) })
  const { checkpoints } = await hub.queues.checkpoints('work')
  expect(checkpoints).toMatchObject([{ queue: 'work', eventCount: 1, reason: 'stop' }])
})

test('a subscription with the name of one that was deleted has nothing of its past', async () => {
  const kept = await open()
  const { hub, db } = kept
  const state = async () => {
    const { rows } = await db.query(
      `select events, checkpoint_id, queue_metrics ->> 'totalProcessed' as processed from ${db.schema}.event_queue_state where id = 'q'`,
    )
    return rows
  }
  await hub.subscribe('t', { name: 'q' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await complete(kept, 'q')
  await hub.publish({ type: 't', payload: 2 })
  await startAlso(kept, 'other')
  await hub.queues.checkpoint('q')
  expect(await state()).toMatchObject([{ checkpoint_id: String(id), processed: '1', events: [{}] }])

  await hub.unsubscribe('q')
  await hub.subscribe('t', { name: 'q' })
  expect(await state()).toEqual([{ checkpoint_id: null, processed: '0', events: [] }])
  expect((await hub.queues.checkpoints('q')).checkpoints).toEqual([])
  expect((await hub.queues.recoveries('q')).recoveries).toEqual([])
  await hub.queues.checkpoint('q')
  expect((await hub.queues.checkpoints('q')).checkpoints).toMatchObject([{ eventCount: 0 }])
})

test('the figures of all queues are read at once', async () => {
  const { hub, db } = await open()
  for (let n = 0; n < 5; n++) await hub.subscribe('t', { name: `q${n}` })
  const { rows } = await db.query<{ 'QUERY PLAN': unknown }>(
    `explain (analyze, format json) select * from ${db.schema}.queue_totals`,
  )
  const plan = JSON.stringify(rows[0]?.['QUERY PLAN'])
  const reads = plan.match(/"Relation Name":"queue_tallies".*?"Actual Loops":(\d+)/g) ?? []
  expect(reads.map((read) => /\d+$/.exec(read)?.[0])).toEqual(['1'])
})

test('checkpoints and recoveries go after 90 days, and not before', async () => {
  const kept = await openWithLease()
  await startAlso(kept, 'killed')
  await kept.hub.queues.checkpoint('q')
  const { tables } = await kept.hub.storage()
  for (const name of ['queue_checkpoints', 'queue_recoveries']) {
    expect(tables.find(({ table }) => table === name)).toMatchObject({ rows: 1, oldestAt: expect.any(Date) })
  }
  await kept.clock.advance(90 * dayMs - 60_000)
  expect((await kept.hub.prune()).removed).toMatchObject({ queue_checkpoints: 0, queue_recoveries: 0 })
  await kept.clock.advance(120_000)
  expect((await kept.hub.prune()).removed).toMatchObject({ queue_checkpoints: 1, queue_recoveries: 1 })
})
