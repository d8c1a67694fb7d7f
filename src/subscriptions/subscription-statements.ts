import { defineStatement } from '../db/database.ts'

/** Subscriptions in the order of their numbers: the one with a name, or with a number; null: all. */
export const readStatement = defineStatement(
  'read_subscriptions',
  `select s.*
  from __schema__.subscription_rows s
  where s.status <> 'deleted' and ($1::text is null or s.name = $1) and ($2::int is null or s.no = $2)
  order by s.no`,
)

/**
 * Subscriptions with their endpoints, beyond a number; `$4`: only the one with this id. `$5` is asc or desc: each call is
 * planned with its values, so either order goes along the index.
 */
export const listSubscribersStatement = defineStatement(
  'list_subscribers',
  `select s.*, t.created_at as "createdAt", t.updated_at as "updatedAt", t.version, e.url, e.headers, e.format, e.rules,
    e.unreachable, e.suspended_at as "suspendedAt", e.probe_at as "probeAt", e.last_error as "lastError",
    e.last_error_at as "lastErrorAt"
  from __schema__.subscription_rows s
  join __schema__.subscriptions t on t.no = s.no
  left join __schema__.endpoints e on e.subscription = s.no
  where s.status <> 'deleted' and ($4::uuid is null or s.id = $4)
    and ($1::int is null or case when $5::text = 'asc' then s.no > $1 else s.no < $1 end)
  order by case when $5 = 'asc' then s.no end, s.no desc
  limit $2 offset $3`,
)

export const upsertStatement = defineStatement(
  'upsert_subscription',
  `insert into __schema__.subscriptions as s (id, name, via, types, tags, filter, conditions, key_pointer, key_path, on_exhausted, retry,
    lease_ms, timeout_ms, max_concurrency, rate_per_second, key_concurrency, storage, max_depth, high_watermark, on_full,
    batch_size, processing_interval_ms, persistence_threshold, handler_seen_at)
  values (__schema__.uuid_v7(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
    $20, $21, $22, __schema__.clock())
  on conflict (name) where status <> 'deleted' do update
  set types = excluded.types, tags = excluded.tags, filter = excluded.filter, conditions = excluded.conditions,
    key_pointer = excluded.key_pointer, key_path = excluded.key_path, on_exhausted = excluded.on_exhausted, retry = excluded.retry,
    lease_ms = excluded.lease_ms, timeout_ms = excluded.timeout_ms, max_concurrency = excluded.max_concurrency,
    rate_per_second = excluded.rate_per_second, key_concurrency = excluded.key_concurrency,
    storage = excluded.storage,
    -- Options that the definition leaves out stay as an operator has set them.
    max_depth = coalesce(excluded.max_depth, s.max_depth),
    high_watermark = least(coalesce(excluded.high_watermark, s.high_watermark), coalesce(excluded.max_depth, s.max_depth)),
    on_full = coalesce(excluded.on_full, s.on_full), batch_size = coalesce(excluded.batch_size, s.batch_size),
    processing_interval_ms = coalesce(excluded.processing_interval_ms, s.processing_interval_ms),
    persistence_threshold = coalesce(excluded.persistence_threshold, s.persistence_threshold),
    handler_seen_at = excluded.handler_seen_at, updated_at = __schema__.clock()
  returning s.no`,
)

export const setRoutesStatement = defineStatement(
  'route_subscription',
  `with wanted as (
    insert into __schema__.routes (pattern, subscription)
    select pattern, $1 from unnest($2::text[]) as pattern
    on conflict do nothing
  )
  delete from __schema__.routes where subscription = $1 and pattern <> all($2::text[])`,
)

/** A subscription with a limit has a row at which its leases wait for each other; one without has none. */
export const setLimitStatement = defineStatement(
  'limit_subscription',
  `with limited as (
    select s.no, s.rate_per_second
    from __schema__.subscriptions s
    where s.no = $1 and __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
  ),
  kept as (
    insert into __schema__.limits (subscription, tokens, refilled_at)
    select l.no, greatest(coalesce(l.rate_per_second, 1), 1), __schema__.clock() from limited l
    on conflict do nothing
  )
  delete from __schema__.limits where subscription = $1 and not exists (select 1 from limited)`,
)

export const lockStatement = defineStatement(
  'hold_subscription',
  `select s.no from __schema__.subscriptions s where s.id = $1 and s.status <> 'deleted' for update`,
)

export const setStatusStatement = defineStatement(
  'set_subscription_status',
  `with changed as (
    update __schema__.subscriptions s
    set status = $2, ramp = null, updated_at = __schema__.clock(), drained_at = null,
      drain_fence = case when $2 = 'draining' then coalesce(pg_sequence_last_value('__schema__.event_ids'::regclass), 0) end,
      drain_xid = null
    where s.id = $1 and s.status <> 'deleted'
    returning s.no, s.max_concurrency, s.rate_per_second, s.ramp
  ),
  -- An operator who sets a status takes the endpoint for healthy again.
  closed as (
    update __schema__.endpoints e
    set unreachable = 0, suspended_at = null, resumes_as = null, probe_at = null, probes = 0
    from changed c
    where e.subscription = c.no
  ),
  unlimited as (
    delete from __schema__.limits l
    using changed c
    where l.subscription = c.no and not __schema__.is_limited(c.max_concurrency, c.rate_per_second, c.ramp)
  )
  select no from changed`,
)

export const touchHandlersStatement = defineStatement(
  'touch_handlers',
  'update __schema__.subscriptions set handler_seen_at = __schema__.clock() where no = any($1::int[])',
)

export const deleteStatement = defineStatement(
  'delete_subscription',
  `with ended as (
    update __schema__.subscriptions
    set status = 'deleted', updated_at = __schema__.clock()
    where (name = $1 or id = $2::uuid) and status <> 'deleted' and no <> 0
    returning no
  ),
  unrouted as (
    delete from __schema__.routes r using ended e where r.subscription = e.no
  ),
  unsigned as (
    delete from __schema__.endpoint_secrets x using ended e where x.subscription = e.no
  )
  select no from ended`,
)

export const countSubscribersStatement = defineStatement(
  'count_subscribers',
  `select count(*)::int from __schema__.subscriptions s where s.status <> 'deleted'`,
)

export const findAbandonedStatement = defineStatement(
  'abandoned_subscriptions',
  `select s.name from __schema__.subscriptions s
  where s.via = 'handler' and s.status = 'active' and s.handler_seen_at < __schema__.clock() - interval '10 min'`,
)
