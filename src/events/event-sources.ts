import type { EventStatus } from '../domain/status.ts'

/** The events that can have a status, in the table where that status lives. */
export interface Members {
  /** A query of event_id, finalized; `within` bounds a column to the ids that are asked for. */
  query(within: (column: string) => string): string
  /** The same for when all are wanted, whatever their order. */
  readonly whole: Members['query']
  /** What has to be read for that, wherever it may be asked for. */
  readonly base: Members['query']
  /** Every member has the status. */
  readonly decided: boolean
  /** SQL: whether a member with one delivery has the status; null: that takes a look at it. */
  decidedAlone(finalized: string): string
}

export function membersOf(status: EventStatus): Members {
  const query = queries[status]
  const [whole, base] = readings[status] ?? [query, query]
  return {
    ...{ query, whole, base },
    decided: status === 'PROCESSING' || status === 'PENDING',
    decidedAlone: (finalized) => {
      if (status === 'FAILED') return `not ${finalized}`
      if (status === 'COMPLETED_WITH_ERRORS') return finalized
      return status === 'CANCELLED' ? `case when not ${isSentAgain} then true end` : 'true'
    },
  }
}

function pending(within: (column: string) => string): string {
  return `select u.event_id, false as finalized
    from __schema__.unfinished u
    where ${within('u.event_id')} and u.event_id not in (select f.event_id from __schema__.in_flight f)`
}

/** What was cancelled, and then replayed, may be anything by now. */
const isSentAgain = `exists (
  select 1 from __schema__.audit a where a.event_id = e.id and a.settlement = 'redriven')`

const isFinalized = `l.cause is not distinct from 'finalized'`

const letters: Members['query'] = (within) => `select l.event_id, ${isFinalized} as finalized
  from __schema__.dead_letters l
  where l.redriven_at is null and ${within('l.event_id')}`

const lettersOfCompleted: Members['query'] = (within) => `${letters(within)} and ${isFinalized}
  union all
  select a.event_id, false
  from __schema__.audit a
  where a.settlement = 'completed' and a.event_id = any(array(
    select l.event_id from __schema__.dead_letters l where l.redriven_at is null and ${within('l.event_id')}))`

const readings: { [status in EventStatus]?: [whole: Members['query'], base: Members['query']] } = {
  COMPLETED_WITH_ERRORS: [lettersOfCompleted, letters],
  // What waits stands in no order, so all of it is read, whatever part is asked for.
  PENDING: [pending, () => pending(() => 'true')],
}

const queries: Record<EventStatus, Members['query']> = {
  PROCESSING: (within) => `select f.event_id, false as finalized
    from __schema__.in_flight f
    where ${within('f.event_id')}`,
  PENDING: pending,
  COMPLETED: (within) => `select a.event_id, false as finalized
    from __schema__.audit a
    where a.settlement = 'completed' and ${within('a.event_id')}
    union all
    select e.id, false
    from __schema__.events e
    where e.owed = '{}' and ${within('e.id')} and not exists (
      select 1 from __schema__.dead_letters l
      where l.event_id = e.id and l.subscription is null and l.redriven_at is null)`,
  FAILED: (within) => `${letters(within)} and l.kind = 'buried'`,
  EXPIRED: (within) => `${letters(within)} and l.kind = 'expired'`,
  COMPLETED_WITH_ERRORS: (within) => `${letters(within)} and (${isFinalized} or exists (
    select 1 from __schema__.audit a where a.event_id = l.event_id and a.settlement = 'completed'))`,
  CANCELLED: (within) => `select a.event_id, false as finalized
    from __schema__.audit a
    where a.settlement in ('cancelled', 'discarded') and ${within('a.event_id')}`,
}
