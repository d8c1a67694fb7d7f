import { numberArray } from '../db/array.ts'
import { defineStatement } from '../db/database.ts'
import type { EventStatus } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import type { EventSource } from './event-sources.ts'
import type { Order } from './paging.ts'
import type { Reader } from './reader.ts'

export interface Walk {
  readonly source: Exclude<EventSource, { kind: 'gathered' }>
  readonly match: EventMatch
  readonly status: EventStatus | undefined
  readonly order: Order
  readonly after: number | null
  readonly count: number
  /** Gives up after looking at so many. */
  readonly examinedMax: number
}

export interface Walked {
  readonly ids: number[]
  readonly examined: number
  /** Where it stopped: it has enough, nothing is left, or it gave up. */
  readonly end: 'count' | 'exhausted' | 'gave up'
}

const windowMin = 64
const windowMax = 4096
/** Most members are judged by themselves, at a fifth of the cost. */
const memberWindowMax = 16_384

/**
 * Goes along the ids window by window, growing, until enough events have the status. After a window with few
 * of them it asks where the next can be at all.
 */
export async function walkEvents(reader: Reader, walk: Walk): Promise<Walked> {
  const { source, status, order, count } = walk
  const ids: number[] = []
  let { after } = walk
  let examined = 0
  let window = source.kind === 'every' ? count : source.kind === 'few' ? windowMax : windowMin
  for (;;) {
    const candidates = await nextCandidates(reader, walk, after, window)
    const matching = await havingStatus(reader, candidates, status)
    ids.push(...matching)
    examined += candidates.length
    if (ids.length >= count) return { ids: ids.slice(0, count), examined, end: 'count' }
    if (candidates.length < window) return { ids, examined, end: 'exhausted' }
    if (examined >= walk.examinedMax) return { ids, examined, end: 'gave up' }

    after = (candidates.at(-1) as Candidate).id
    if (source.kind === 'walked' && matching.length < window / 8) {
      const target = await jump(reader, source.jump, order, after)
      if (target === null) return { ids, examined, end: 'exhausted' }
      after = order === 'asc' ? target - 1 : target + 1
    }
    window = Math.min(window * 4, source.kind === 'walked members' ? memberWindowMax : windowMax)
  }
}

interface Candidate {
  readonly id: number
  /** Null: its deliveries have to be looked at. */
  readonly matches: boolean | null
}

async function nextCandidates(
  reader: Reader,
  { source, match, order }: Walk,
  after: number | null,
  count: number,
): Promise<Candidate[]> {
  const values = [...match.values]
  const beyond = (column: string) =>
    after === null ? 'true' : `${column} ${order === 'asc' ? '>' : '<'} $${values.push(after)}`
  let text: string
  if (source.kind === 'walked members') {
    text = `with member as materialized (
        select m.event_id, bool_or(m.finalized) as finalized
        from (${source.members.query}) as m
        where ${match.bounds('m.event_id')} and ${beyond('m.event_id')}
        group by m.event_id
        order by m.event_id ${order}
        limit ${count}
      )
      select m.event_id as id,
        case
          when e.owed is null then false
          when cardinality(e.owed) <= 1 then ${source.members.decidedAlone ?? 'null::boolean'}
        end as matches
      from member m
      left join lateral (
        select e.owed from __schema__.events e where e.id = m.event_id and ${match.condition} offset 0
      ) as e on true
      order by m.event_id ${order}`
  } else if (match.types !== null) {
    // Type by type: one index scan over several types would have to sort all they have.
    text = `select c.id, null::boolean as matches
      from unnest($${values.push(match.types)}::text[]) as t(type)
      cross join lateral (
        select e.id
        from __schema__.events e
        where e.type = t.type and ${match.condition} and ${match.bounds('e.id')} and ${beyond('e.id')}
        order by e.id ${order}
        limit ${count}
      ) as c
      order by c.id ${order}
      limit ${count}`
  } else {
    text = `select e.id, null::boolean as matches
      from __schema__.events e
      where ${match.condition} and ${match.bounds('e.id')} and ${beyond('e.id')}
      order by e.id ${order}
      limit ${count}`
  }
  const { rows } = await reader.query<Candidate>(text, values)
  return rows
}

async function havingStatus(
  reader: Reader,
  candidates: readonly Candidate[],
  status: EventStatus | undefined,
): Promise<number[]> {
  const unsure = candidates.filter(({ matches }) => matches === null).map(({ id }) => id)
  const rows =
    status === undefined || unsure.length === 0
      ? []
      : await reader.run<[id: number]>(filterByStatus(reader), [numberArray(unsure), status])
  const found = new Set(rows.map(([id]) => id))
  return candidates
    .filter(({ id, matches }) => matches ?? (status === undefined || found.has(id)))
    .map(({ id }) => id)
}

const filterByStatus = defineStatement(
  'filter_by_status',
  'select s.event_id from __schema__.event_statuses($1) as s where s.status = $2',
)

async function jump(
  reader: Reader,
  to: 'unfinished' | 'completed',
  order: Order,
  after: number,
): Promise<number | null> {
  const direction = order === 'asc' ? 'next' : 'previous'
  const { rows } = await reader.query<{ id: number | null }>(
    `select __schema__.${direction}_${to}($1) as id`,
    [after],
  )
  return rows[0]?.id ?? null
}
