import {
  badOption,
  type CheckedPaging,
  checkPaging,
  checkTime,
  checkWhole,
  type Paging,
  pagingOptions,
  type Total,
  totalMax,
  uuidForm,
} from '../core/paging.ts'
import { planRows, type Reader, readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'

export type DeadLetterKind = 'buried' | 'expired'

export interface DeadLetter extends DeadLetterHead {
  /** The event and the subscription as they were then: JSON texts, so that the payload keeps its bytes. */
  readonly eventText: string
  readonly subscriptionText: string | null
}

/** A dead letter without its snapshots, which may have a megabyte each. */
export interface DeadLetterHead {
  readonly id: string
  readonly eventId: number
  /** Null also where the event is no longer stored. */
  readonly eventType: string | null
  /** The delivery it was; null where no subscription wanted the event. */
  readonly deliveryId: string | null
  readonly subscription: number | null
  readonly subscriptionId: string | null
  readonly name: string | null
  readonly kind: DeadLetterKind
  readonly reason: string
  readonly attempts: number
  readonly failures: number
  readonly buriedAt: Date
  readonly redrivenAt: Date | null
  readonly redrivenBy: string | null
  /** When what its event said was erased. */
  readonly purgedAt: Date | null
}

export interface DeadLetterFilter extends Paging {
  readonly subscription?: number
  readonly eventId?: number
  /** Of events that are still stored. */
  readonly eventType?: string
  readonly kind?: DeadLetterKind
  /** Buried at or after. */
  readonly since?: Date
  /** Buried before. */
  readonly until?: Date
  /** `true` shows those as well that were redriven since. */
  readonly includeRedriven?: boolean
}

export interface DeadLetterPage<Letter = DeadLetter> extends Total {
  readonly deadLetters: readonly Letter[]
  readonly nextCursor: string | null
}

/** Dead letters in the order of their ids, which is that of their burial. */
export async function listDeadLetters(db: Database, filter: DeadLetterFilter = {}): Promise<DeadLetterPage> {
  const paging = checkFilter(filter)
  return readAtOnce(db, (reader) => readPage<DeadLetter>(reader, filter, paging, letterColumns))
}

export async function listDeadLetterHeads(
  db: Database,
  filter: DeadLetterFilter = {},
): Promise<DeadLetterPage<DeadLetterHead>> {
  const paging = checkFilter(filter)
  return readAtOnce(db, (reader) => readPage<DeadLetterHead>(reader, filter, paging, headColumns))
}

async function readPage<Letter extends DeadLetterHead>(
  reader: Reader,
  filter: DeadLetterFilter,
  { limit, offset, after, order, cursorAt }: CheckedPaging,
  columns: string,
): Promise<DeadLetterPage<Letter>> {
  const values: unknown[] = []
  const conditions = conditionsOf(filter, values)
  const total = await countLetters(reader, conditions, [...values])

  if (after !== null) conditions.push(`l.id ${order === 'asc' ? '>' : '<'} $${values.push(after)}::uuid`)
  const { rows } = await reader.query<Letter>(
    `select ${columns}
    ${fromLetters}
    where ${conditions.join(' and ')}
    order by l.id ${order}
    limit $${values.push(limit + 1)} offset $${values.push(offset)}`,
    values,
  )
  const deadLetters = rows.slice(0, limit)
  const last = deadLetters.at(-1)
  const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.id) : null
  return { deadLetters, ...total, nextCursor }
}

/**
 * The ids of those that can be redriven, in the order of their events, so that the lanes keep it. What cannot, because
 * its subscription or its event is gone or purged, would stand in the way of the rest for ever. A filter that leaves
 * nothing out is refused: it is more likely a slip than the wish to retry every dead letter there is.
 */
export async function chooseLetters(db: Database, filter: DeadLetterFilter, max: number): Promise<string[]> {
  checkFilter(filter)
  if (narrowing.every((name) => filter[name] === undefined)) {
    const expected = `given: at least one of ${narrowing.join(', ')} (since: new Date(0) means all)`
    throw badOption('filter', expected, undefined)
  }
  return readAtOnce(db, async (reader) => {
    const values: unknown[] = []
    const conditions = conditionsOf({ ...filter, includeRedriven: false }, values)
    const { rows } = await reader.query<{ id: string }>(
      `select l.id
      from __schema__.dead_letters l
      join __schema__.events e on e.id = l.event_id
      where ${conditions.join(' and ')} and l.purged_at is null and case
        when l.subscription is null then __schema__.owed_by(e) <> '{}'
        else exists (
          select 1 from __schema__.subscriptions s where s.no = l.subscription and s.status <> 'deleted')
      end
      order by l.event_id, l.id
      limit $${values.push(max)}`,
      values,
    )
    return rows.map(({ id }) => id)
  })
}

const narrowing = ['subscription', 'eventId', 'eventType', 'kind', 'since', 'until'] as const

/** The dead letter that a delivery is now, if it is one. */
export async function openLetter(
  db: Database,
  { eventId, subscription }: { eventId: number; subscription: number },
): Promise<string | undefined> {
  const [row] = await db.run<[id: string]>(openStatement(db), [eventId, subscription])
  return row?.[0]
}

export async function getDeadLetter(db: Database, id: string): Promise<DeadLetter | undefined> {
  if (!uuidForm.test(id)) return undefined
  const { text } = getStatement(db)
  const { rows } = await db.query<DeadLetter>(text, [id])
  return rows[0]
}

/** To find the time in the snapshot is to read all of it, so the event is asked while it is there. */
const headColumns = `l.id, l.event_id as "eventId", e.type as "eventType",
  __schema__.delivery_id(coalesce(e.created_at, __schema__.snapshot_time(l.event_snapshot)), l.event_id, l.subscription)
    as "deliveryId",
  l.subscription, s.id as "subscriptionId", s.name, l.kind, l.reason, l.attempts, l.failures, l.buried_at as "buriedAt",
  l.redriven_at as "redrivenAt", l.redriven_by as "redrivenBy", l.purged_at as "purgedAt"`
const letterColumns = `${headColumns}, l.event_snapshot::text as "eventText",
  l.subscription_snapshot::text as "subscriptionText"`
const fromLetters = `from __schema__.dead_letters l
    left join __schema__.events e on e.id = l.event_id
    left join __schema__.subscriptions s on s.no = l.subscription`

const getStatement = defineStatement(
  'get_dead_letter',
  `select ${letterColumns} ${fromLetters} where l.id = $1`,
)

const openStatement = defineStatement(
  'open_letter',
  `select l.id
  from __schema__.dead_letters l
  where l.event_id = $1 and l.subscription = $2 and l.redriven_at is null
  order by l.id desc
  limit 1`,
)

const filterNames: NamesOf<DeadLetterFilter> = {
  ...pagingOptions,
  ...{ subscription: true, eventId: true, eventType: true, kind: true, since: true, until: true },
  includeRedriven: true,
}

function checkFilter(filter: DeadLetterFilter): CheckedPaging {
  checkOptions(filter, filterNames, 'a list of dead letters')
  const { kind, subscription, eventId } = filter
  if (kind !== undefined && kind !== 'buried' && kind !== 'expired') {
    throw badOption('kind', 'buried or expired', kind)
  }
  if (subscription !== undefined && !Number.isInteger(subscription)) {
    throw badOption('subscription', "a subscription's number", subscription)
  }
  if (eventId !== undefined) checkWhole('eventId', eventId, 1, Number.MAX_SAFE_INTEGER)
  checkTime('since', filter.since)
  checkTime('until', filter.until)
  return checkPaging('dlq', filter, uuidForm)
}

function conditionsOf(filter: DeadLetterFilter, values: unknown[]): string[] {
  const { subscription, eventId, eventType, kind, since, until, includeRedriven = false } = filter
  const conditions = [includeRedriven ? 'true' : 'l.redriven_at is null']
  if (subscription !== undefined) conditions.push(`l.subscription = $${values.push(subscription)}`)
  if (eventId !== undefined) conditions.push(`l.event_id = $${values.push(eventId)}`)
  if (eventType !== undefined) {
    conditions.push(
      `l.event_id in (select e.id from __schema__.events e where e.type = $${values.push(eventType)})`,
    )
  }
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
