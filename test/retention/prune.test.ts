import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { dayMs, type Kept, useKept } from './setup.ts'

const { open } = useKept('prune')

const succeeded = { kind: 'succeeded' } as const
const failed = { kind: 'failed', reason: 'no', permanent: true } as const

/** Publishes an event of a type to the pull subscription `all` and settles it. */
async function settleOne(
  kept: Kept,
  type: string,
  outcome: typeof succeeded | typeof failed,
): Promise<number> {
  const { id } = await kept.hub.publish({ type, payload: { type } })
  await settleRuns(kept.hub, await leaseRuns(kept.hub, 'all'), outcome)
  return id
}

async function openWithQueue(...args: Parameters<typeof open>): Promise<Kept> {
  const kept = await open(...args)
  // Not all of them: a burial is told by an event of its own.
  await kept.hub.subscribe(['t', 'a', 'b', 'lane', 'long', 'short', 'usual'], { name: 'all' })
  return kept
}

describe('events', () => {
  test('a finished event goes when its time is over, and not before', async () => {
    const kept = await openWithQueue()
    const id = await settleOne(kept, 't', succeeded)
    await kept.clock.advance(7 * dayMs - 60_000)
    expect((await kept.hub.prune()).removed.events).toBe(0)
    expect(await kept.eventIds()).toEqual([id])
    await kept.clock.advance(120_000)
    expect((await kept.hub.prune()).removed).toMatchObject({ events: 1, audit: 1 })
    expect(await kept.eventIds()).toEqual([])
    expect(await kept.count('audit')).toBe(0)
    expect(await kept.count('removals')).toBe(0)
    expect(await kept.hub.event(id)).toBeUndefined()
  })

  test('its time counts from when it was finished', async () => {
    const kept = await openWithQueue()
    const { id } = await kept.hub.publish({ type: 't', payload: 1 })
    await kept.clock.advance(30 * dayMs)
    await settleRuns(kept.hub, await leaseRuns(kept.hub, 'all'), succeeded)
    await kept.clock.advance(6 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([id])
    await kept.clock.advance(2 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([])
  })

  test('what waits, is leased or waits for a retry stays, however old', async () => {
    const kept = await openWithQueue()
    const { hub } = kept
    await hub.subscribe('lane', { name: 'lane' })
    const waiting = await hub.publish({ type: 'lane', payload: 1, orderingKey: 'k' })
    const behind = await hub.publish({ type: 'lane', payload: 2, orderingKey: 'k' })
    await settleRuns(hub, await leaseRuns(hub, 'all', { limit: 10 }), succeeded)
    await settleRuns(hub, await leaseRuns(hub, 'all', { limit: 10 }), succeeded)
    const leased = await hub.publish({ type: 't', payload: 3 })
    await leaseRuns(hub, 'all', { leaseMs: 43_200_000, limit: 10 })
    const [lane] = await leaseRuns(hub, 'lane')
    await settleRuns(hub, [lane as NonNullable<typeof lane>], { kind: 'failed', reason: 'later' })
    await kept.clock.advance(40_000_000)
    await hub.prune({ olderThanMs: 1_000 })
    expect(await kept.eventIds()).toEqual([waiting.id, behind.id, leased.id])
  })

  test('one that nobody wanted goes by the time it was published', async () => {
    const kept = await open()
    await kept.hub.publish({ type: 'nobody', payload: 1 })
    await kept.clock.advance(8 * dayMs)
    expect((await kept.hub.prune()).removed.events).toBe(1)
  })

  test('a type may keep its events for longer or for shorter', async () => {
    const kept = await openWithQueue()
    await kept.hub.defineType('long', { keepMs: 30 * dayMs })
    await kept.hub.defineType('short', { keepMs: dayMs })
    const long = await settleOne(kept, 'long', succeeded)
    await settleOne(kept, 'short', succeeded)
    const usual = await settleOne(kept, 'usual', succeeded)
    await kept.clock.advance(2 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([long, usual])
    await kept.clock.advance(6 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([long])
    await kept.clock.advance(23 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([])
  })

  test('a type that no longer says so is kept as any other', async () => {
    const kept = await openWithQueue()
    await kept.hub.defineType('long', { keepMs: 300 * dayMs })
    await settleOne(kept, 'long', succeeded)
    await settleOne(kept, 'usual', succeeded)
    await kept.clock.advance(8 * dayMs)
    while (await kept.hub.retention.step());
    expect(await kept.eventIds()).toHaveLength(1)
    await kept.hub.deleteType('long')
    while (await kept.hub.retention.step());
    expect(await kept.eventIds()).toEqual([])
  })

  test('many go in steps, those in between stay', async () => {
    const kept = await open()
    const { hub, db } = kept
    await hub.publishMany(Array.from({ length: 2_500 }, (_, n) => ({ type: 't', payload: n })))
    await hub.subscribe('keep', { name: 'keep' })
    const stays = await hub.publish({ type: 'keep', payload: 1 })
    await hub.publishMany(Array.from({ length: 10 }, (_, n) => ({ type: 't', payload: n })))
    await kept.clock.advance(8 * dayMs)
    expect(await hub.retention.step()).toBe(true)
    expect(await kept.count('events')).toBe(1_511)
    while (await hub.retention.step());
    expect(await kept.eventIds()).toEqual([stays.id])
    const { rows } = await db.query(`select reached from ${db.schema}.retention_walks where name = 'events'`)
    // It was the first full pass, and the next one begins at the start as well.
    expect(rows).toEqual([{ reached: 0 }])
  })

  test('a pass begins where the first one stayed, and is not repeated before it is due', async () => {
    const kept = await openWithQueue()
    const { hub, db } = kept
    await settleOne(kept, 't', succeeded)
    const stays = await hub.publish({ type: 't', payload: 1 })
    await kept.clock.advance(8 * dayMs)
    while (await hub.retention.step());
    await kept.clock.advance(600_000)
    while (await hub.retention.step());
    const walk = `select reached from ${db.schema}.retention_walks where name = 'events'`
    expect((await db.query(walk)).rows).toEqual([{ reached: stays.id - 1 }])
    await settleRuns(hub, await leaseRuns(hub, 'all'), succeeded)
    await db.query(`update ${db.schema}.audit set finished_at = finished_at - interval '8 days'`)
    while (await hub.retention.step());
    expect(await kept.eventIds()).toEqual([stays.id])
    await kept.clock.advance(600_000)
    while (await hub.retention.step());
    expect(await kept.eventIds()).toEqual([])
  })

  test('two processes that prune at once remove each event once', async () => {
    const kept = await open()
    await kept.hub.publishMany(Array.from({ length: 3_000 }, (_, n) => ({ type: 't', payload: n })))
    await kept.clock.advance(8 * dayMs)
    const both = await Promise.all([kept.hub.prune(), kept.hub.prune()])
    expect(both.reduce((sum, { removed }) => sum + (removed.events ?? 0), 0)).toBe(3_000)
    expect(await kept.count('events')).toBe(0)
  })

  test('of two processes with upkeep one prunes at a time, until it has gone', async () => {
    const kept = await open()
    const other = await kept.openAlso()
    await kept.hub.publishMany(Array.from({ length: 2_500 }, (_, n) => ({ type: 't', payload: n })))
    await kept.clock.advance(8 * dayMs)
    expect(await kept.hub.retention.step()).toBe(true)
    expect(await other.retention.step()).toBe(false)
    expect(await kept.count('events')).toBe(1_500)
    await kept.clock.advance(11_000)
    expect(await other.retention.step()).toBe(true)
    expect(await kept.hub.retention.step()).toBe(false)
    expect(await kept.count('events')).toBe(500)
  })

  test('long payloads make shorter steps', async () => {
    const kept = await open()
    const payload = randomBytes(600_000).toString('base64')
    for (let n = 0; n < 30; n++) await kept.hub.publish({ type: 't', payload })
    await kept.clock.advance(8 * dayMs)
    expect(await kept.hub.retention.step()).toBe(true)
    expect(await kept.count('events')).toBeGreaterThan(0)
    while (await kept.hub.retention.step());
    expect(await kept.count('events')).toBe(0)
  })
})

describe('dead letters', () => {
  test('an event stays with its dead letter, and both go when that is old', async () => {
    const kept = await openWithQueue()
    const id = await settleOne(kept, 't', failed)
    await kept.clock.advance(89 * dayMs)
    await kept.hub.prune()
    expect(await kept.eventIds()).toEqual([id])
    expect(await kept.count('dead_letters')).toBe(1)
    await kept.clock.advance(2 * dayMs)
    expect((await kept.hub.prune()).removed).toMatchObject({ dead_letters: 1, events: 1, audit: 1 })
    expect(await kept.eventIds()).toEqual([])
  })

  test('an event goes by its own time once its dead letter is redriven or discarded', async () => {
    const kept = await openWithQueue()
    await settleOne(kept, 'a', failed)
    await settleOne(kept, 'b', failed)
    const [first, second] = (await kept.hub.deadLetters()).deadLetters
    await kept.hub.retryDeadLetter(first?.id as string)
    await kept.hub.discardDeadLetter(second?.id as string)
    await settleRuns(kept.hub, await leaseRuns(kept.hub, 'all'), succeeded)
    await kept.clock.advance(8 * dayMs)
    expect((await kept.hub.prune()).removed.events).toBe(2)
  })

  test('one that a lane waits for stays', async () => {
    const kept = await open()
    const { hub } = kept
    await hub.subscribe('t', { name: 'all', onExhausted: 'block' })
    const { id } = await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
    await settleRuns(hub, await leaseRuns(hub, 'all'), failed)
    await kept.clock.advance(100 * dayMs)
    expect((await hub.prune()).removed).toMatchObject({ dead_letters: 0, events: 0 })
    await hub.unblock('all', 'k', 'skip')
    expect((await hub.prune()).removed).toMatchObject({ dead_letters: 1, events: 1 })
    expect(await hub.event(id)).toBeUndefined()
  })
})

describe('the audit', () => {
  test('stays as long as its event, also if it is older', async () => {
    const kept = await openWithQueue({ keepFinishedMs: 30 * dayMs, keepAuditMs: dayMs })
    const id = await settleOne(kept, 't', succeeded)
    await kept.clock.advance(29 * dayMs)
    await kept.hub.prune()
    expect((await kept.hub.event(id))?.progress.status).toBe('COMPLETED')
    await kept.clock.advance(2 * dayMs)
    expect((await kept.hub.prune()).removed).toMatchObject({ events: 1, audit: 1 })
  })

  test('outlives its event where that is kept for shorter', async () => {
    const kept = await openWithQueue({ keepFinishedMs: 0 })
    await settleOne(kept, 't', succeeded)
    expect((await kept.hub.prune()).removed).toMatchObject({ events: 1, audit: 0 })
    await kept.clock.advance(6 * dayMs)
    expect((await kept.hub.prune()).removed.audit).toBe(0)
    await kept.clock.advance(2 * dayMs)
    expect((await kept.hub.prune()).removed.audit).toBe(1)
  })

  test('an event with more records than fit one step loses all of them', async () => {
    const kept = await openWithQueue()
    const { db } = kept
    const id = await settleOne(kept, 't', succeeded)
    await db.query(
      `insert into ${db.schema}.audit (event_id, subscription, settlement, attempt, finished_at)
      select $1, 7, 'snoozed', 1, ${db.schema}.clock() from generate_series(1, 12000)`,
      [id],
    )
    await kept.clock.advance(8 * dayMs)
    expect((await kept.hub.prune()).removed).toMatchObject({ events: 1, audit: 12_001 })
    expect(await kept.count('audit')).toBe(0)
    expect(await kept.count('removals')).toBe(0)
  })

  test('what pull workers said to have begun goes with it', async () => {
    const kept = await openWithQueue()
    const { hub } = kept
    await hub.publish({ type: 't', payload: 1 })
    const runs = await leaseRuns(hub, 'all')
    const [run] = runs
    const eventId = run?.deliveries[0]?.event.id as number
    await hub.pull.begin({ eventId, workerId: 'w' })
    await settleRuns(hub, runs, succeeded)
    expect(await kept.count('starts')).toBe(1)
    await kept.clock.advance(8 * dayMs)
    expect((await hub.prune()).removed.starts).toBe(1)
  })
})

describe('what else is old', () => {
  test('replays and the admin log go after 90 days, and not before', async () => {
    const kept = await openWithQueue()
    const { hub } = kept
    await settleOne(kept, 't', succeeded)
    await hub.record({ actor: 'k', action: 'x' })
    await hub.replay('all', { eventIds: [1] })
    while (await hub.sweep());
    await kept.clock.advance(89 * dayMs)
    expect((await hub.prune()).removed).toMatchObject({ replays: 0, admin_log: 0 })
    await kept.clock.advance(2 * dayMs)
    expect((await hub.prune()).removed).toMatchObject({ replays: 1, admin_log: 1 })
  })

  test('a worker is forgotten when nothing that is kept can name it', async () => {
    const kept = await openWithQueue()
    const { hub } = kept
    await settleOne(kept, 't', succeeded)
    expect((await hub.workers()).map(({ name }) => name)).toContain('w')
    await kept.clock.advance(80 * dayMs)
    expect((await hub.prune()).removed.workers).toBe(0)
    await kept.clock.advance(20 * dayMs)
    await leaseRuns(hub, 'all', { workerId: 'new' })
    await hub.prune()
    expect((await hub.workers()).map(({ name }) => name)).toEqual(['new'])
  })

  test('lanes that were idle for 90 days are numbered anew', async () => {
    const kept = await open()
    const { db, hub } = kept
    await db.query(
      `insert into ${db.schema}.lane_counters (subscription, ordering_key, epoch, latest, touched_at)
      select 1, 'k' || n, 1, 5, ${db.schema}.clock() - case when n % 2 = 0 then interval '91 days' else interval '89 days' end
      from generate_series(1, 5000) as n`,
    )
    expect((await hub.prune()).removed.lane_counters).toBe(2_500)
    expect(await kept.count('lane_counters')).toBe(2_500)
  })

  test('a lane still knows what was delivered under numbers that are gone', async () => {
    const kept = await openWithQueue()
    const { db, hub } = kept
    const id = await settleOne(kept, 't', succeeded)
    await db.query(
      `insert into ${db.schema}.lane_counters (subscription, ordering_key, epoch, latest, delivered, checked, touched_at)
      values (1, 'k', 9, 5, 4, 4, ${db.schema}.clock())`,
    )
    await db.query(
      `insert into ${db.schema}.lane_numbers (event_id, subscription, ordering_key, epoch, sequence, audit_id)
      values ($1, 1, 'k', 9, 5, 0)`,
      [id],
    )
    await kept.clock.advance(8 * dayMs)
    expect((await hub.prune()).removed.lane_numbers).toBe(1)
    const { rows } = await db.query(`select latest, delivered from ${db.schema}.lane_counters`)
    expect(rows).toEqual([{ latest: 5, delivered: 5 }])
  })
})

test('a dry run counts what would go, and nothing goes', async () => {
  const kept = await openWithQueue()
  await kept.hub.defineType('short', { keepMs: dayMs })
  await settleOne(kept, 't', succeeded)
  await settleOne(kept, 'short', succeeded)
  await kept.clock.advance(8 * dayMs)
  expect(await kept.hub.prune({ dryRun: true })).toEqual({
    removed: { dead_letters: 0, events: 2 },
    auditedEvents: 0,
  })
  expect(await kept.count('events')).toBe(2)
  await kept.hub.retention.step()
  expect((await kept.hub.prune({ dryRun: true })).removed.events).toBe(0)
})

test.each([
  ['olderThanMs', { olderThanMs: -1 }],
  ['deadLettersOlderThanMs', { deadLettersOlderThanMs: 1.5 }],
])('pruning is refused with such a %s: %j', async (option, options) => {
  const { hub } = await open()
  await expect(hub.prune(options)).rejects.toMatchObject({ code: 'BAD_OPTION', details: { option } })
})
