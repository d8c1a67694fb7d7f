/** The key that orders an event for a subscription as it is now: `e` and `s`. */
export const currentKey = `case when s.key_path is null then e.ordering_key
        else __schema__.key_at(s.key_path, e.payload, __schema__.event_fields(e)) end`

/** The same, or that of the lane which it was numbered in, even if the subscription has come to order by something else. */
export const numberedKey = `coalesce((
        select n.ordering_key from __schema__.lane_numbers n
        where n.event_id = e.id and n.subscription = s.no
        order by n.replays desc
        limit 1), ${currentKey})`

/**
 * Lets finished deliveries in again, which the part before it calls `again`. One that blocks its lane goes back to its
 * head, an unkeyed one is ready at once, the others go through the door. Of these those of one kind that follow each other
 * are one row, and the rows are in the order of their events: an admission that takes only some leaves the later ones behind.
 */
export const enqueueAgain = `heads as (
    update __schema__.runs r
    set state = (case when o.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      event_ids = o.event_id || r.event_ids, first_id = o.event_id, attempts = o.attempts, failures = 0, blocked_by = null
    from again o
    where r.id = o.blocked_run
  ),
  free as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, max_failures, attempts)
    select o.no, 'ready', array[o.event_id], o.event_id, o.tags, case when o.no = 0 then o.max_retries end, o.attempts
    from again o
    where o.ordering_key is null and o.concurrency_key is null
  ),
  queued as materialized (
    select o.*,
      row_number() over (partition by o.no order by o.event_id)
        - row_number() over (partition by o.no, o.tags, o.max_retries, o.attempts order by o.event_id) as stretch
    from again o
    where num_nonnulls(o.ordering_key, o.concurrency_key) > 0 and o.blocked_run is null
  ),
  arrivals as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, again_as, tags, max_failures,
      attempts)
    select q.no, array_agg(q.event_id order by q.event_id), array_agg(q.ordering_key order by q.event_id),
      array_agg(q.concurrency_key order by q.event_id),
      (select nextval('__schema__.event_ids')), q.tags, case when q.no = 0 then q.max_retries end, q.attempts
    from queued q
    group by q.no, q.stretch, q.tags, q.max_retries, q.attempts
    order by min(q.event_id)
  ),
  gates as (
    insert into __schema__.inbox (subscription, concurrency_keys)
    select o.no, array_agg(o.concurrency_key)
    from again o
    where o.concurrency_key is not null and o.blocked_run is not null
    group by o.no
  )`
