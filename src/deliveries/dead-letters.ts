import { type FilterFields, termsOf } from '../core/list-filter.ts'
import { readListPage, type SearchedTo, startForm } from '../core/list-page.ts'
import { conditionOf, Parameters } from '../core/list-sql.ts'
import type { WalkBounds } from '../core/list-walk.ts'
import { checkPaging, checkTime, type Paging, type Total, uuidForm } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { anyOf, compared, type Term } from '../domain/list-terms.ts'
import { integer } from '../domain/subscription.ts'
import { deadLetterList, letterFields } from './dead-letter-list.ts'

export type DeadLetterKind = 'buried' | 'expired'

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

const fields: FilterFields<DeadLetterFilter> = {
  subscription: (no) => {
    if (!Number.isInteger(no)) throw badOption('subscription', "a subscription's number", no)
    return [anyOf('subscriber', [no])]
  },
  eventId: (id) => [anyOf('event', [integer('eventId', id, 1, Number.MAX_SAFE_INTEGER)])],
  eventType: (type) => [anyOf('type', [type])],
  kind: (kind) => {
    if (kind !== 'buried' && kind !== 'expired') throw badOption('kind', 'buried or expired', kind)
    return [anyOf('kind', [kind])]
  },
  since: (since) => [compared('buried', '>=', checkTime('since', since))],
  until: (until) => [compared('buried', '<', checkTime('until', until))],
  includeRedriven: () => [],
}

function deadLetterTerms(filter: DeadLetterFilter): Term[] {
  return termsOf(filter, fields, 'a list of dead letters')
}

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

export interface DeadLetterPage<Letter = DeadLetter> extends Total, SearchedTo {
  readonly deadLetters: readonly Letter[]
  readonly nextCursor: string | null
}

const letterPlace = startForm('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')

/** Dead letters in the order of their ids, which is that of their burial. */
export function listDeadLetters(
  db: Database,
  filter?: DeadLetterFilter,
  bounds?: WalkBounds,
): Promise<DeadLetterPage> {
  return readPage<DeadLetter>(db, filter, bounds, letterColumns)
}

/** The same without snapshots. */
export function listDeadLetterHeads(
  db: Database,
  filter?: DeadLetterFilter,
  bounds?: WalkBounds,
): Promise<DeadLetterPage<DeadLetterHead>> {
  return readPage<DeadLetterHead>(db, filter, bounds, headColumns)
}

async function readPage<Letter extends DeadLetterHead>(
  db: Database,
  filter: DeadLetterFilter = {},
  bounds: WalkBounds | undefined,
  columns: string,
): Promise<DeadLetterPage<Letter>> {
  const terms = deadLetterTerms(filter)
  const paging = checkPaging('dlq', filter, letterPlace)
  return readAtOnce(db, async (reader) => {
    const redriven = filter.includeRedriven === true ? 'with' : 'without'
    const list = deadLetterList(reader, { terms, redriven }, paging)
    const { items, ...page } = await readListPage(reader, list, paging, bounds)
    const { rows } = await reader.query<Letter>(
      `select ${columns} ${fromLetters} where l.id = any($1::uuid[]) order by l.id ${paging.order}`,
      [items],
    )
    return { deadLetters: rows, ...page }
  })
}

/**
 * The ids of those that can be redriven, in the order of their events, so that the lanes keep it. What cannot, because
 * its subscription or its event is gone or purged, would stand in the way of the rest for ever. A filter that leaves
 * nothing out is refused: it is more likely a slip than the wish to retry every dead letter there is.
 */
export async function chooseLetters(db: Database, filter: DeadLetterFilter, max: number): Promise<string[]> {
  const terms = deadLetterTerms(filter)
  if (narrowing.every((name) => filter[name] === undefined)) {
    const expected = `given: at least one of ${narrowing.join(', ')} (since: new Date(0) means all)`
    throw badOption('filter', expected, undefined)
  }
  return readAtOnce(db, async (reader) => {
    const parameters = new Parameters()
    const { rows } = await reader.query<{ id: string }>(
      `select l.id
      from __schema__.dead_letters l
      join __schema__.events e on e.id = l.event_id
      where l.redriven_at is null and ${conditionOf(terms, letterFields, parameters)} and l.purged_at is null and case
        when l.subscription is null then __schema__.owed_by(e) <> '{}'
        else exists (
          select 1 from __schema__.subscriptions s where s.no = l.subscription and s.status <> 'deleted')
      end
      order by l.event_id, l.id
      limit ${parameters.add(max)}`,
      parameters.values,
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
