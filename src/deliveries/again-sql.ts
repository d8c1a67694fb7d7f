/** The key that orders an event for a subscription as it is now: `e` and `s`. */
export const currentKey = '__schema__.lane_key(s.key_path, e)'

/** The same, or that of the lane which it was numbered in, even if the subscription has come to order by something else. */
export const numberedKey = `coalesce((
        select n.ordering_key from __schema__.lane_numbers n
        where n.event_id = e.id and n.subscription = s.no
        order by n.replays desc
        limit 1), ${currentKey})`

/**
 * Lets finished deliveries in again, which the part before it calls `again`. One that blocks its lane goes back to the
 * lane's head, whatever the subscription's options are by now: the blocked run keeps the keys that it was made with, and
 * passes the gate of its own concurrency key. The others get the keys that the options of today give them: without any
 * they are ready at once, else they go through the door in the order of their events.
 */
export const enqueueAgain = `heads as (
    update __schema__.runs r
    set state = (case when r.concurrency_key is null then 'ready' else 'gated' end)::__schema__.run_state,
      event_ids = o.event_id || r.event_ids, first_id = o.event_id, attempts = o.attempts, failures = 0, blocked_by = null
    from again o
    where r.id = o.blocked_run
    returning r.subscription, r.concurrency_key
  ),
  free as (
    insert into __schema__.runs (subscription, state, event_ids, first_id, tags, max_failures, attempts)
    select o.no, 'ready', array[o.event_id], o.event_id, o.tags, case when o.no = 0 then o.max_retries end, o.attempts
    from again o
    where o.ordering_key is null and o.concurrency_key is null and o.blocked_run is null
  ),
  queued as materialized (
    select o.*, (row_number() over (partition by o.no order by o.event_id) - 1) / 1000 as portion
    from again o
    where num_nonnulls(o.ordering_key, o.concurrency_key) > 0 and o.blocked_run is null
  ),
  arrivals as (
    insert into __schema__.inbox (subscription, event_ids, ordering_keys, concurrency_keys, tag_lists, max_failures, attempts,
      again_as)
    select q.no, array_agg(q.event_id order by q.event_id), array_agg(q.ordering_key order by q.event_id),
      array_agg(q.concurrency_key order by q.event_id), array_agg(array_to_string(q.tags, ',') order by q.event_id),
      array_agg(case when q.no = 0 then q.max_retries end order by q.event_id), array_agg(q.attempts order by q.event_id),
      (select nextval('__schema__.event_ids'))
    from queued q
    group by q.no, q.portion
    order by min(q.event_id)
  ),
  gates as (
    insert into __schema__.inbox (subscription, concurrency_keys)
    select h.subscription, array_agg(h.concurrency_key)
    from heads h
    where h.concurrency_key is not null
    group by h.subscription
  )`
