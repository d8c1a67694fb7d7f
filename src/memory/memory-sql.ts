/** The queue, if it is still the caller's: subscription $1, token $2. Nobody else claims it until the statement is done. */
export const heldMemory = `held as materialized (
    select q.subscription, q.checkpoint
    from __schema__.memory_queues q
    where q.subscription = $1 and q.token = $2
    for update
  )`

/** Stores what the part before it calls `taken`, rows of memory_events, as events that their queue is owed. */
export const storeTaken = `stored as (
    insert into __schema__.events as e (id, type, title, description, payload, ordering_key, version, source, "timestamp",
      correlation_id, causation_id, traceparent, max_retries, attributes, owed, created_at)
    select m.event_id, m.type, m.title, m.description, m.payload, m.ordering_key, m.version, m.source, m."timestamp",
      m.correlation_id, m.causation_id, m.traceparent, m.max_retries, m.attributes, array[m.subscription], m.created_at
    from taken m
    on conflict (id) do update   -- another memory queue was owed it, too
    set owed = array(select distinct o.no from unnest(e.owed || excluded.owed) as o(no) order by o.no)
    returning e.id, e as event
  )`
