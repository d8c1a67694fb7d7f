import { type Database, defineStatement } from '../db/database.ts'
import {
  badOption,
  type CheckedPaging,
  checkPaging,
  checkTime,
  encodeCursor,
  type Paging,
  type Total,
  totalMax,
} from './paging.ts'
import { planRows, type Reader, readAtOnce } from './reader.ts'

export type DeadLetterKind = 'buried' | 'expired'

export interface DeadLetter {
  readonly id: string
  readonly eventId: number
  /** The delivery it was; null where no subscription wanted the event. */
  readonly deliveryId: string | null
  readonly subscription: number | null
  readonly kind: DeadLetterKind
  readonly reason: string
  readonly attempts: number
  readonly failures: number
  /** The event and the subscription as they were then: JSON texts, so that the payload keeps its bytes. */
  readonly eventText: string
  readonly subscriptionText: string | null
  readonly buriedAt: Date
  readonly redrivenAt: Date | null
  readonly redrivenBy: string | null
}

export interface DeadLetterFilter extends Paging {
  readonly subscription?: number
  readonly kind?: DeadLetterKind
  /** Buried at or after. */
  readonly since?: Date
  /** Buried before. */
  readonly until?: Date
  /** `true` shows those as well that were redriven since. */
  readonly includeRedriven?: boolean
}

export interface DeadLetterPage extends Total {
  readonly deadLetters: readonly DeadLetter[]
  readonly nextCursor: string | null
}

/** Dead letters in the order of their ids, which is that of their burial. */
export async function listDeadLetters(db: Database, filter: DeadLetterFilter = {}): Promise<DeadLetterPage> {
  const paging = checkFilter(filter)
  return readAtOnce(db, (reader) => readPage(reader, filter, paging))
}

async function readPage(
  reader: Reader,
  filter: DeadLetterFilter,
  { limit, offset, after, order }: CheckedPaging,
): Promise<DeadLetterPage> {
  const values: unknown[] = []
  const conditions = conditionsOf(filter, values)
  const total = await countLetters(reader, conditions, [...values])

  if (after !== null) conditions.push(`l.id ${order === 'asc' ? '>' : '<'} $${values.push(after)}::uuid`)
  const { rows } = await reader.query<DeadLetter>(
    `select ${letterColumns}
    from __schema__.dead_letters l
    where ${conditions.join(' and ')}
    order by l.id ${order}
    limit $${values.push(limit + 1)} offset $${values.push(offset)}`,
    values,
  )
  const deadLetters = rows.slice(0, limit)
  const last = deadLetters.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? encodeCursor(order, last.id) : null
  return { deadLetters, ...total, nextCursor }
}

export async function getDeadLetter(db: Database, id: string): Promise<DeadLetter | undefined> {
  if (!uuidForm.test(id)) return undefined
  const { text } = getStatement(db)
  const { rows } = await db.query<DeadLetter>(text, [id])
  return rows[0]
}

const letterColumns = `l.id, l.event_id as "eventId",
  __schema__.delivery_id(__schema__.snapshot_time(l.event_snapshot), l.event_id, l.subscription) as "deliveryId",
  l.subscription, l.kind, l.reason, l.attempts, l.failures, l.event_snapshot::text as "eventText",
  l.subscription_snapshot::text as "subscriptionText", l.buried_at as "buriedAt", l.redriven_at as "redrivenAt",
  l.redriven_by as "redrivenBy"`

const getStatement = defineStatement(
  'get_dead_letter',
  `select ${letterColumns} from __schema__.dead_letters l where l.id = $1`,
)

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

function checkFilter(filter: DeadLetterFilter): CheckedPaging {
  const { kind, subscription } = filter
  if (kind !== undefined && kind !== 'buried' && kind !== 'expired') {
    throw badOption('kind', 'buried or expired', kind)
  }
  if (subscription !== undefined && !Number.isInteger(subscription)) {
    throw badOption('subscription', "a subscription's number", subscription)
  }
  checkTime('since', filter.since)
  checkTime('until', filter.until)
  return checkPaging(filter, uuidForm)
}

function conditionsOf(filter: DeadLetterFilter, values: unknown[]): string[] {
  const { subscription, kind, since, until, includeRedriven = false } = filter
  const conditions = [includeRedriven ? 'true' : 'l.redriven_at is null']
  if (subscription !== undefined) conditions.push(`l.subscription = $${values.push(subscription)}`)
  if (kind !== undefined) conditions.push(`l.kind = $${values.push(kind)}`)
  // An id begins with the time of burial: it bounds the search, give or take its rounding.
  if (since !== undefined) {
    conditions.push(`l.buried_at >= $${values.push(since)}`)
    conditions.push(`l.id >= $${values.push(uuidAt(since.getTime() - roundingMs))}::uuid`)
  }
  if (until !== undefined) {
    conditions.push(`l.buried_at < $${values.push(until)}`)
    conditions.push(`l.id < $${values.push(uuidAt(until.getTime() + roundingMs))}::uuid`)
  }
  return conditions
}

const roundingMs = 1000

/** The least id that could have been drawn at that time. */
function uuidAt(timeMs: number): string {
  const hex = Math.max(0, timeMs).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-0000-0000-000000000000`
}

async function countLetters(
  reader: Reader,
  conditions: readonly string[],
  values: readonly unknown[],
): Promise<Total> {
  const matching = `select 1 from __schema__.dead_letters l where ${conditions.join(' and ')}`
  const { rows } = await reader.query<{ count: number }>(
    `select count(*)::int as count from (${matching} limit ${totalMax + 1}) as counted`,
    values,
  )
  const count = rows[0]?.count ?? 0
  if (count <= totalMax) return { total: count, totalIsEstimate: false }
  return { total: Math.max(count, await planRows(reader, matching, values)), totalIsEstimate: true }
}
