import { checkPaging, type Paging } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { EndpointDefinition } from '../webhooks/send/endpoint-rows.ts'
import { type SubscriptionRow, subscriptionColumns, subscriptionFromRow } from './subscription-row.ts'

/** A subscription with all that is told of it over HTTP. */
export interface Subscriber extends Subscription {
  readonly createdAt: Date
  readonly updatedAt: Date
  /** Counts its changes. */
  readonly version: number
  /** Where its webhooks go, and how that is going; null: it has none. */
  readonly endpoint: (EndpointDefinition & EndpointHealth) | null
}

export interface EndpointHealth {
  /** Failures in a row to reach it at all. */
  readonly unreachable: number
  readonly suspendedAt: Date | null
  readonly probeAt: Date | null
  readonly lastError: string | null
  readonly lastErrorAt: Date | null
}

export interface SubscriberPage {
  readonly subscribers: readonly Subscriber[]
  readonly total: number
  readonly nextCursor: string | null
}

/** In the order of their numbers, which is that in which they were made. */
export async function listSubscribers(db: Database, paging: Paging = {}): Promise<SubscriberPage> {
  const { limit, offset, after, order, cursorAt } = checkPaging('subscribers', paging, noForm)
  return readAtOnce(db, async (reader) => {
    const [counted] = await reader.run<[total: number]>(countStatement(db), [])
    const start = after === null ? beforeAll[order] : Number(after)
    const rows = await reader.run<SubscriberRow>(pageStatements[order](db), [start, limit + 1, offset])
    const subscribers = rows.slice(0, limit).map(fromRow)
    const last = subscribers.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.no) : null
    return { subscribers, total: counted?.[0] ?? 0, nextCursor }
  })
}

const noForm = /^\d{1,7}$/
const beforeAll = { asc: -1, desc: 2 ** 31 - 1 }

/** Undefined: there is none. */
export async function getSubscriber(
  tx: Connection,
  db: { readonly schema: string },
  id: string,
): Promise<Subscriber | undefined> {
  const [row] = await tx.run<SubscriberRow>(getStatement(db), [id])
  return row && fromRow(row)
}

const select = `select s.created_at, s.updated_at, s.version, e.url, e.headers, e.format, e.rules, e.unreachable,
    e.suspended_at, e.probe_at, e.last_error, e.last_error_at, ${subscriptionColumns}
  from __schema__.subscriptions s
  left join __schema__.endpoints e on e.subscription = s.no
  where s.status <> 'deleted'`

const pageStatements = {
  asc: defineStatement(
    'list_subscribers',
    `${select} and s.no > $1
  order by s.no
  limit $2 offset $3`,
  ),
  desc: defineStatement(
    'list_subscribers_desc',
    `${select} and s.no < $1
  order by s.no desc
  limit $2 offset $3`,
  ),
}
const countStatement = defineStatement(
  'count_subscribers',
  `select count(*)::int from __schema__.subscriptions s where s.status <> 'deleted'`,
)
const getStatement = defineStatement('get_subscriber', `${select} and s.id = $1`)

type SubscriberRow = [
  createdAt: Date,
  updatedAt: Date,
  version: number,
  url: string | null,
  headers: EndpointDefinition['headers'],
  format: EndpointDefinition['format'],
  rules: EndpointDefinition['rules'],
  unreachable: number,
  suspendedAt: Date | null,
  probeAt: Date | null,
  lastError: string | null,
  lastErrorAt: Date | null,
  ...SubscriptionRow,
]

function fromRow(row: SubscriberRow): Subscriber {
  const [createdAt, updatedAt, version, url, headers, format, rules, ...rest] = row
  const [unreachable, suspendedAt, probeAt, lastError, lastErrorAt, ...subscription] = rest
  const health = { unreachable, suspendedAt, probeAt, lastError, lastErrorAt }
  return {
    ...subscriptionFromRow(subscription),
    ...{ createdAt, updatedAt, version },
    endpoint: url === null ? null : { url, headers, format, rules, ...health },
  }
}
