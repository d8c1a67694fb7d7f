import { type EventStatus, finalizedPrefix } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import { planRows, type Reader } from './reader.ts'

/**
 * Where events of a status are looked for: in the table where that status lives, so that finding the ten
 * failed ones among a million costs ten.
 */
export type EventSource =
  /** The events themselves: every match has the status asked for. */
  | { readonly kind: 'every' }
  /** So few can have the status that all are gathered and sorted. */
  | { readonly kind: 'gathered'; readonly members: Members; readonly status: EventStatus }
  /** So few match the rest of the filter that all of them are looked at. */
  | { readonly kind: 'few' }
  /** In the order of ids, looking at each; `jump` leads over a stretch without any. */
  | { readonly kind: 'walked'; readonly jump: 'unfinished' | 'completed' }
  /** The same, but only at those that can have the status at all. */
  | { readonly kind: 'walked members'; readonly members: Members }

export interface Members {
  /** A query of the events that can have the status: event_id, finalized. */
  readonly query: string
  /** SQL about a member `m` of an event with one delivery: whether it has the status. Null: it can't be told. */
  readonly decidedAlone: string | null
  /** The same about any event. */
  readonly decided: string | null
}

/** Up to here members are gathered; beyond, they are so many that a walk soon meets some. */
const gatheredMax = 12_000
/** If the rest of the filter leaves so few, they are the place to look, whatever the status. */
const fewMatches = 2000

export async function chooseSource(
  reader: Reader,
  status: EventStatus | undefined,
  match: EventMatch,
): Promise<EventSource> {
  if (status === undefined) return { kind: 'every' }
  if (match.condition !== 'true' && (await planMatches(reader, match)) <= fewMatches) {
    return { kind: 'few' }
  }
  const members = membersOf(status)
  if (status === 'PROCESSING' || (await isSmall(reader, members.query)))
    return { kind: 'gathered', members, status }
  if (status === 'PENDING') return { kind: 'walked', jump: 'unfinished' }
  if (status === 'COMPLETED') return { kind: 'walked', jump: 'completed' }
  return { kind: 'walked members', members }
}

export function planMatches(reader: Reader, match: EventMatch): Promise<number> {
  return planRows(reader, `select 1 from __schema__.events e where ${match.condition}`, match.values)
}

const finalized = `l.reason like '${finalizedPrefix}%' as finalized`
const letters = `select l.event_id, ${finalized} from __schema__.dead_letters l where l.redriven_at is null`

function membersOf(status: EventStatus): Members {
  switch (status) {
    case 'PROCESSING':
      return {
        query: 'select f.event_id, false as finalized from __schema__.in_flight f',
        decidedAlone: 'true',
        decided: 'true',
      }
    case 'PENDING':
      return {
        query: `select u.event_id, false as finalized
          from __schema__.unfinished u
          where not exists (select 1 from __schema__.in_flight f where f.event_id = u.event_id)`,
        decidedAlone: 'true',
        decided: 'true',
      }
    case 'COMPLETED':
      return {
        query: `select a.event_id, false as finalized from __schema__.audit a where a.settlement = 'completed'
          union all
          select e.id, false from __schema__.events e where e.owed = '{}'`,
        decidedAlone: null,
        decided: null,
      }
    case 'FAILED':
      return { query: `${letters} and l.kind = 'buried'`, decidedAlone: 'not m.finalized', decided: null }
    case 'EXPIRED':
      return { query: `${letters} and l.kind = 'expired'`, decidedAlone: 'true', decided: null }
    case 'COMPLETED_WITH_ERRORS':
      return {
        query: `${letters} and (l.reason like '${finalizedPrefix}%' or exists (
          select 1 from __schema__.audit a where a.event_id = l.event_id and a.settlement = 'completed'))`,
        decidedAlone: 'm.finalized',
        decided: null,
      }
    case 'CANCELLED':
      return {
        query: `select a.event_id, false as finalized
          from __schema__.audit a
          where a.settlement in ('cancelled', 'discarded')`,
        decidedAlone: 'true',
        decided: null,
      }
  }
}

async function isSmall(reader: Reader, members: string): Promise<boolean> {
  const { rows } = await reader.query<{ count: number }>(
    `select count(*)::int as count from (select 1 from (${members}) as m limit ${gatheredMax + 1}) as counted`,
  )
  return (rows[0]?.count ?? 0) <= gatheredMax
}
