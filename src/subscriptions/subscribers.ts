import { checkPaging, type Paging } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import type { Connection, Database } from '../db/database.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { EndpointDefinition } from '../webhooks/send/endpoint-rows.ts'
import { subscriptionFromRow } from './subscription-row.ts'
import { countSubscribersStatement, listSubscribersStatement } from './subscription-statements.ts'

/** A subscription as it is shown over HTTP. */
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

/** In the order of their numbers, and so of their creation. */
export async function listSubscribers(db: Database, paging: Paging = {}): Promise<SubscriberPage> {
  const { limit, offset, after, order, cursorAt } = checkPaging('subscribers', paging, numberForm)
  return readAtOnce(db, async (reader) => {
    const [counted] = await reader.run<[total: number]>(countSubscribersStatement(db), [])
    const page = [after, limit + 1, offset, null, order]
    const { rows } = await reader.query<SubscriberRow>(listSubscribersStatement(db).text, page)
    const subscribers = rows.slice(0, limit).map(subscriberFromRow)
    const last = subscribers.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.no) : null
    return { subscribers, total: counted?.[0] ?? 0, nextCursor }
  })
}

const numberForm = /^\d{1,7}$/

/** Undefined: there is none with this id. */
export async function getSubscriber(
  tx: Connection,
  db: { readonly schema: string },
  id: string,
): Promise<Subscriber | undefined> {
  const values = [null, 1, 0, id, 'asc']
  const { rows } = await tx.query<SubscriberRow>(listSubscribersStatement(db).text, values)
  return rows[0] && subscriberFromRow(rows[0])
}

type SubscriberRow = Omit<Subscriber, 'endpoint'> & ((EndpointDefinition & EndpointHealth) | { url: null })

function subscriberFromRow(row: SubscriberRow): Subscriber {
  const { url, headers, format, rules, unreachable, suspendedAt, probeAt, lastError, lastErrorAt, ...rest } =
    row as Omit<Subscriber, 'endpoint'> & EndpointDefinition & EndpointHealth
  const health = { unreachable, suspendedAt, probeAt, lastError, lastErrorAt }
  const endpoint = row.url === null ? null : { url, headers, format, rules, ...health }
  return subscriptionFromRow({ ...rest, endpoint })
}
