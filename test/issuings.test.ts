import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Attempt, StoredEvent } from '../src/index.ts'
import type { TestPosthorn } from '../src/testing/index.ts'
import { useHubs } from './support/hub.ts'
import { createSignal } from './support/signal.ts'

const hubs = useHubs('issuings')
const type = 'issuings-ai-checks'
const processes = 3
const snoozeMs = 30_000

let pool: pg.Pool
beforeEach(async () => {
  pool = new pg.Pool({ ...hubs.connection, max: 12 })
  await pool.query('create table issuing_check (trigger_id text primary key, work_status text)')
})
afterEach(async () => {
  await pool.query('drop table issuing_check')
  await pool.end()
})

/** What all processes do: at most two checks at once, by the rows that say so; who finds no room comes again. */
class Checks {
  readonly turnedAway = new Set<string>()
  readonly done: string[] = []
  /** How many there were each time that one had begun. */
  readonly atOnce: number[] = []
  /** No check ends before this is given. */
  readonly gate = createSignal()

  async handle({ payload }: StoredEvent, attempt: Attempt): Promise<void> {
    const { triggerId } = payload as { triggerId: string }
    if (!(await this.#begin(triggerId))) {
      this.turnedAway.add(triggerId)
      return attempt.snooze(snoozeMs)
    }
    this.atOnce.push(await countNew())
    await this.gate.given
    this.done.push(triggerId)
    await pool.query(`update issuing_check set work_status = 'DONE' where trigger_id = $1`, [triggerId])
  }

  async #begin(triggerId: string): Promise<boolean> {
    const id = pg.escapeLiteral(triggerId)
    const results: unknown = await pool.query(`lock table issuing_check in share row exclusive mode;
      insert into issuing_check select ${id}, 'NEW'
      where (select count(*) from issuing_check where work_status = 'NEW' and trigger_id <> ${id}) < 2`)
    return (results as pg.QueryResult[])[1]?.rowCount === 1
  }
}

async function countNew(): Promise<number> {
  const { rows } = await pool.query(
    `select count(*)::int as count from issuing_check where work_status = 'NEW'`,
  )
  return rows[0].count
}

/** Several processes on one schema. The first one's clock is everybody's. */
async function openFleet(checks: Checks): Promise<TestPosthorn & { alerts: unknown[] }> {
  const alerts: unknown[] = []
  const fleet: TestPosthorn[] = []
  for (let n = 0; n < processes; n++) {
    const opened = await hubs.open({ schema: 'issuings', workerId: `process-${n}` })
    opened.hub.on(type, { name: 'ai-checks', concurrency: 4 }, (event, attempt) =>
      checks.handle(event, attempt),
    )
    opened.hub.on(
      'posthorn.delivery.expired',
      { name: 'on-call' },
      (event) => void alerts.push(event.payload),
    )
    await opened.hub.start()
    fleet.push(opened)
  }
  return { ...(fleet[0] as TestPosthorn), alerts }
}

test('issuings-ai-checks: two at once in the fleet, in order per application, expired ones told, none lost', async () => {
  const checks = new Checks()
  const { hub, clock, drain, alerts } = await openFleet(checks)
  const applications = ['a', 'b', 'c', 'd', 'e', 'f']
  const triggers = [1, 2, 3, 4].flatMap((n) => applications.map((application) => `${application}${n}`))
  const late = ['a2', 'b4', 'c2', 'd1', 'e4', 'f3']
  const published = await hub.publishMany(
    triggers.map((triggerId) => {
      const applicationId = triggerId.slice(0, 1)
      const payload = { triggerId, applicationId }
      const expiresAt = late.includes(triggerId) ? new Date(Date.now() + 600_000) : null
      return { type, payload, orderingKey: applicationId, ...(expiresAt && { expiresAt }) }
    }),
  )

  // Each application's first one is tried: two begin, and the others find no room.
  await expect.poll(() => checks.turnedAway.size + checks.atOnce.length).toBe(applications.length)
  expect(Math.max(...checks.atOnce)).toBe(2)
  expect(checks.turnedAway.size).toBe(applications.length - 2)
  checks.gate.give()
  await drain()

  // Two checks of somebody else take so long that the late ones expire.
  await pool.query(`insert into issuing_check values ('other-1', 'NEW'), ('other-2', 'NEW')`)
  const doneBefore = [...checks.done]
  await clock.advance(600_000)
  await drain()
  expect(checks.done).toEqual(doneBefore)
  await pool.query(`update issuing_check set work_status = 'DONE'`)
  const expired = late.filter((triggerId) => !doneBefore.includes(triggerId))
  const inTime = triggers.filter((triggerId) => !expired.includes(triggerId))
  for (let round = 0; checks.done.length < inTime.length && round < 50; round++) {
    await clock.advance(snoozeMs)
    await drain()
  }

  expect([...checks.done].sort()).toEqual([...inTime].sort())
  expect(Math.max(...checks.atOnce)).toBe(2)
  for (const application of applications) {
    const own = (list: readonly string[]) => list.filter((triggerId) => triggerId.startsWith(application))
    expect(own(checks.done)).toEqual(own(inTime))
  }
  expect(expired).toHaveLength(applications.length - 2)
  const eventIds = expired.map((triggerId) => published[triggers.indexOf(triggerId)]?.id)
  const { deadLetters } = await hub.deadLetterHeads({ kind: 'expired' })
  expect(deadLetters.map(({ eventId }) => eventId).sort()).toEqual([...eventIds].sort())
  await expect.poll(() => alerts).toHaveLength(eventIds.length)
  expect(alerts).toEqual(
    expect.arrayContaining(eventIds.map((eventId) => expect.objectContaining({ eventId }))),
  )
  for (const id of eventIds) expect((await hub.event(id as number))?.progress.status).toBe('EXPIRED')
})
