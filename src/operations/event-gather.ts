import type { EventStatus } from '../domain/status.ts'
import type { EventMatch } from './event-match.ts'
import type { Members } from './event-sources.ts'
import type { Order } from './paging.ts'
import type { Reader } from './reader.ts'

export interface Gathering {
  readonly members: Members
  readonly match: EventMatch
  readonly status: EventStatus
  readonly order: Order
  readonly after: number | null
  readonly count: number
}

/** All members that match are judged at once: the first of them, and how many they are. */
export async function gatherEvents(
  reader: Reader,
  { members, match, status, order, after, count }: Gathering,
): Promise<{ ids: number[]; total: number }> {
  const values: unknown[] = [...match.values]
  const { decided, decidedAlone } = members
  const { rows } = await reader.query<{ ids: number[]; total: number }>(
    `with member as materialized (
      select m.event_id, bool_or(m.finalized) as finalized
      from (${members.query}) as m
      group by m.event_id
    ),
    judged as materialized (
      select m.event_id,
        coalesce(${decided ?? 'null::boolean'}, case when cardinality(e.owed) <= 1 then ${decidedAlone ?? 'null::boolean'} end) as matches
      from member m
      cross join lateral (
        select e.owed from __schema__.events e where e.id = m.event_id and ${match.condition} offset 0
      ) as e
    ),
    matching as materialized (
      select j.event_id from judged j where j.matches
      union all
      select s.event_id
      from __schema__.event_statuses(array(select j.event_id from judged j where j.matches is null)) as s
      where s.status = $${values.push(status)}
    )
    select
      array(
        select m.event_id
        from matching m
        where ${after === null ? 'true' : `m.event_id ${order === 'asc' ? '>' : '<'} $${values.push(after)}`}
        order by m.event_id ${order}
        limit ${count}) as ids,
      (select count(*)::int from matching) as total`,
    values,
  )
  return rows[0] as { ids: number[]; total: number }
}
