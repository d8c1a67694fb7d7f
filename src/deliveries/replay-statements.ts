import { defineStatement } from '../db/database.ts'

/**
 * The next deliveries of subscription $1 that a replay asks for, of events above $2 and up to $3. Goes through up to $5 rows
 * and chooses up to $4. Returns the chosen events, how many rows it has seen, and the last of these.
 */
export const chooseLettersStatement = defineStatement(
  'choose_letters',
  `with seen as materialized (
    select d.event_id,
      d.kind = any($6::text[]) and d.buried_at >= $7 and (d.buried_at < $8 or $8::timestamptz is null)
        and (d.no <= $9 or $9::bigint is null) as fits
    from __schema__.dead_letters d
    where d.subscription = $1 and d.redriven_at is null and d.event_id > $2 and d.event_id <= $3::bigint
    order by d.event_id
    limit $5::int
  ),
  chosen as materialized (
    select distinct s.event_id from seen s where s.fits order by s.event_id limit $4::int
  )
  select array(select c.event_id from chosen c order by c.event_id), (select count(*)::int from seen),
    (select max(s.event_id) from seen s)`,
)

/**
 * The same for events: those that were owed to the subscription, whatever became of them, and those that it would be owed now.
 * The subquery is bounded and in order, so that events are looked into one by one, and no more of them than it takes.
 */
export const chooseInRangeStatement = defineStatement(
  'choose_in_range',
  `with seen as materialized (
    select e.id as event_id
    from __schema__.events e
    where e.id > $2 and e.id <= $3::bigint
    order by e.id
    limit $5::int
  ),
  chosen as materialized (
    select w.id as event_id
    from (
      select e.id, e as event
      from __schema__.events e
      where e.id > $2 and e.id <= $3
      order by e.id
      limit $5
    ) as w
    where ((w.event).created_at >= $6 or $6::timestamptz is null)
      and ((w.event).created_at < $7 or $7::timestamptz is null)
      and case
        when $8::text is null then true
        when $8 = '*' then (w.event).type is not null
        when right($8, 2) = '.*' then starts_with((w.event).type, left($8, -1))
        else (w.event).type = $8
      end
      and ($9::jsonb is null or __schema__.meets($9, __schema__.readable((w.event).payload), __schema__.event_fields(w.event)))
      and (w.event).purged_at is null
      and ($1 = any((w.event).owed) or $1 = any(__schema__.owed_by(w.event)))
    order by w.id
    limit $4::int
  )
  select array(select c.event_id from chosen c order by c.event_id), (select count(*)::int from seen),
    (select max(s.event_id) from seen s)`,
)

/** The same for the events in $10. With a condition for both the planner would go through all events between them. */
export const chooseByIdsStatement = defineStatement(
  'choose_by_ids',
  `with seen as materialized (
    select e.id as event_id
    from __schema__.events e
    where e.id > $2 and e.id <= $3::bigint and e.id = any($10::bigint[])
    order by e.id
    limit $5::int
  ),
  chosen as materialized (
    select w.id as event_id
    from (
      select e.id, e as event
      from __schema__.events e
      where e.id > $2 and e.id <= $3 and e.id = any($10)
      order by e.id
      limit $5
    ) as w
    where ((w.event).created_at >= $6 or $6::timestamptz is null)
      and ((w.event).created_at < $7 or $7::timestamptz is null)
      and case
        when $8::text is null then true
        when $8 = '*' then (w.event).type is not null
        when right($8, 2) = '.*' then starts_with((w.event).type, left($8, -1))
        else (w.event).type = $8
      end
      and ($9::jsonb is null or __schema__.meets($9, __schema__.readable((w.event).payload), __schema__.event_fields(w.event)))
      and (w.event).purged_at is null
      and ($1 = any((w.event).owed) or $1 = any(__schema__.owed_by(w.event)))
    order by w.id
    limit $4::int
  )
  select array(select c.event_id from chosen c order by c.event_id), (select count(*)::int from seen),
    (select max(s.event_id) from seen s)`,
)

export const findLastLetterStatement = defineStatement(
  'last_letter',
  `select coalesce(max(d.event_id), 0)
  from __schema__.dead_letters d
  where d.subscription = $1 and d.redriven_at is null`,
)

/** Wide enough to miss no event: each event's own time is checked later. */
export const boundReplayStatement = defineStatement(
  'bound_replay',
  `select
    case when $1::timestamptz is null then 0
      else coalesce(__schema__.event_id_at($1 - __schema__.time_disorder()), 1) - 1 end,
    least(coalesce(l.id, 0), case when $2::timestamptz is not null
      then coalesce(__schema__.event_id_at($2 + __schema__.time_disorder()), 1) - 1 end),
    case when $1 is null or $1 < o.created_at then o.created_at end
  from (select max(e.id) as id from __schema__.events e) as l
  left join (select e.created_at from __schema__.events e order by e.id limit 1) as o on true`,
)

export const countGoneStatement = defineStatement(
  'count_gone',
  `select count(*)::int
  from unnest($1::bigint[]) as u(id)
  where not exists (select 1 from __schema__.events e where e.id = u.id and e.purged_at is null)`,
)

export const findIdenticalReplayStatement = defineStatement(
  'find_identical_replay',
  `select r.id
  from __schema__.replays r
  where r.subscription = $1 and r.kind = $2 and r.fingerprint = $3
    and (r.state = 'running'
      or (r.state = 'completed' and r.finished_at > __schema__.clock() - interval '10 min'))
  order by r.id desc
  limit 1`,
)

export const createReplayStatement = defineStatement(
  'create_replay',
  `insert into __schema__.replays (id, subscription, kind, request, fingerprint, total, total_is_estimate, reached, last_id, last_letter,
    removed, oldest_kept_at, rate_per_second, tokens, refilled_at, due_at, created_at, created_by)
  select __schema__.uuid_v7(), s.no, $2, $3::json, $4, $5, $6, $7, $8,
    case when $2 = 'recover' then pg_sequence_last_value('__schema__.dead_letters_no_seq'::regclass) end, $9, $10, $11::float8,
    greatest($11, 1), __schema__.clock(), __schema__.clock(), __schema__.clock(), $12
  from __schema__.subscriptions s
  where s.no = $1 and s.status <> 'deleted'
  returning id`,
)

/**
 * Replays in a state, of a subscription; null: of any. `$6`: only the replay with this id. `$7` is asc or desc: each call is
 * planned with its values, so either order goes along the index.
 */
export const listReplaysStatement = defineStatement(
  'list_replays',
  `select r.id, r.kind, json_build_object('no', s.no, 'id', s.id, 'name', s.name) as subscription, r.request, r.state,
    r.total, r.total_is_estimate as "totalIsEstimate", r.done, r.skipped, r.removed, r.reached,
    r.oldest_kept_at as "oldestKeptAt", r.rate_per_second as "ratePerSecond", r.created_at as "createdAt",
    r.created_by as "createdBy", r.finished_at as "finishedAt", r.reason, r.last_error as "lastError"
  from __schema__.replays r
  join __schema__.subscriptions s on s.no = r.subscription
  where (r.state = $1 or $1::text is null) and (s.id = $2 or $2::uuid is null) and (r.id = $6 or $6::uuid is null)
    and ($3::uuid is null or case when $7::text = 'asc' then r.id > $3 else r.id < $3 end)
  order by case when $7 = 'asc' then r.id end, r.id desc
  limit $4 offset $5`,
)

/** To be counted, and to see how many rows the planner expects. */
export const findReplaysStatement = defineStatement(
  'find_replays',
  `select r.id
  from __schema__.replays r
  join __schema__.subscriptions s on s.no = r.subscription
  where (r.state = $1 or $1::text is null) and (s.id = $2 or $2::uuid is null)`,
)

export const abortReplayStatement = defineStatement(
  'abort_replay',
  `update __schema__.replays r
  set state = 'aborted', finished_at = __schema__.clock(), reason = $2
  where r.id = $1 and r.state = 'running'`,
)

/**
 * Only the oldest replay of a subscription may go on. The subscription is locked as well: it cannot be deleted meanwhile, and two
 * steps at once would mix up the order of its lanes.
 */
export const takeReplayStatement = defineStatement(
  'take_replay',
  `select r.id, r.subscription, r.kind, r.request, r.reached, r.last_id as "lastId",
    case when r.rate_per_second is null then $2::int else least($2, floor(__schema__.tokens_now(r.tokens, r.refilled_at, r.rate_per_second)))::int end
      as "deliveriesMax",
    r.last_letter as "lastLetter", r.created_by as "createdBy", s.status = 'deleted' as "isOrphan"
  from __schema__.replays r
  join __schema__.subscriptions s on s.no = r.subscription
  where r.state = 'running'
    and (r.id = $1 or $1::uuid is null)
    and __schema__.is_replay_due(r.due_at)
    and (r.rate_per_second is null or __schema__.tokens_now(r.tokens, r.refilled_at, r.rate_per_second) >= 1 or s.status = 'deleted')
    and (s.drain_fence is null or s.status = 'deleted')   -- a queue that drains gets nothing new
    and not exists (
      select 1 from __schema__.replays o
      where o.subscription = r.subscription and o.state = 'running' and o.id < r.id)
  order by r.due_at, r.id
  limit 1
  for no key update of r, s skip locked`,
)

export const advanceReplayStatement = defineStatement(
  'advance_replay',
  `update __schema__.replays r
  set reached = $2, done = r.done + $3, skipped = r.skipped + $4, removed = r.removed + $5,
    tokens = coalesce(__schema__.tokens_now(r.tokens, r.refilled_at, r.rate_per_second) - $3, 0), refilled_at = __schema__.clock(), due_at = __schema__.clock(),
    state = case when $2::bigint >= r.last_id then 'completed' else 'running' end,
    finished_at = case when $2 >= r.last_id then __schema__.clock() end,
    last_error = null
  where r.id = $1`,
)

/** It is tried again after the other replays. */
export const noteReplayErrorStatement = defineStatement(
  'note_replay_trouble',
  `update __schema__.replays r
  set last_error = $2, due_at = __schema__.clock() + interval '5 s'
  where r.id = $1 and r.state = 'running'`,
)
