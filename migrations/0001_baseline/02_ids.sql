-- Ids: how events and everything else get theirs, and why none is given out twice after a failover.
--
--   event_ids         the sequence of event ids
--   draw_event_ids    draws ids in the order of publishing calls
--   follow_promotion  moves the sequences forward when a standby has become the server
--   uuid_v7           ids of everything else: dead letters, subscriptions, replays
--   delivery_id       the id of a delivery, computed: a delivery has no row

-- A UUIDv7 on the database's clock.
create function __schema__.uuid_v7() returns uuid language sql volatile as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from __schema__.clock()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1),
    'hex')::uuid
$$;

-- The lowest id that uuid_v7 can give at a time: finds rows with such ids by time.
create function __schema__.uuid_floor(at timestamptz) returns uuid language sql immutable strict as $$
  select rpad(lpad(to_hex(least(greatest(floor(extract(epoch from at) * 1000), 0), 281474976710655)::bigint), 12, '0'), 32, '0')::uuid
$$;

-- The id of a delivery is made of the event's time and id and the number of the subscription.
create function __schema__.delivery_id(created_at timestamptz, event_id bigint, subscription int) returns uuid
  language sql immutable as $$
  select (lpad(to_hex(floor(extract(epoch from created_at) * 1000)::bigint), 12, '0')
    || '7' || lpad(to_hex(event_id >> 41), 3, '0')
    || lpad(to_hex((1::bigint << 63) | ((event_id & 2199023255551) << 21) | subscription), 16, '0'))::uuid
$$;

-- CACHE 1, so that ids follow the order of calls: an event that a transaction could see has a lower id than the events
-- that this transaction publishes.
create sequence __schema__.event_ids as bigint minvalue 1 cache 1;


-- Failover ----------------------------------------------------------------------------------------------------------------
--
--   old server    ids …, 997, 998, 999 ✗
--   standby       ids …, 997                  999 was given out, and the standby has never heard of it
--   promoted      ids 997 + 2^28, …           so the first draw on the new timeline jumps
--
-- A standby that is promoted may lack the last commits of the lost server, and so the numbers that these gave out. A
-- promotion begins a new timeline; a restart after a crash does not. The first session that draws a number on a new timeline
-- moves the sequences beyond every number that can have been given out.
--
-- The timeline is kept in a sequence: a new value is visible at once in every transaction, and no rollback undoes it.
create sequence __schema__.id_timeline as bigint minvalue 1;

-- The timeline of the server. The name of the WAL file changes with the promotion itself.
create function __schema__.current_timeline() returns bigint language sql volatile as $$
  select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$$;
select setval('__schema__.id_timeline', __schema__.current_timeline());

-- Every statement that gives out numbers which others remember calls this first: numbers of events, workers and
-- subscriptions.
create function __schema__.follow_promotion() returns void language plpgsql as $$
begin
  if __schema__.current_timeline() <> (select t.last_value from __schema__.id_timeline t) then
    perform __schema__.jump_ids();
  end if;
end $$;

-- One session at a time jumps, and it sets the timeline last: until then every session that wants a number comes here. The
-- lock is released at once, not at the end of the transaction: sequences are never rolled back, and a publisher's
-- transaction may stay open for long. A role that may publish may also cause the jump, hence `security definer`.
create function __schema__.jump_ids() returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  promotions bigint;
begin
  perform pg_advisory_lock(hashtextextended('__schema__', 7003));
  begin
    select __schema__.current_timeline() - t.last_value into promotions from __schema__.id_timeline t;
    if promotions <> 0 then
      -- A database that was restored elsewhere may be on a lower or a much higher timeline: then the number of
      -- promotions is unknown, and one jump must do.
      promotions := case when promotions between 1 and 100 then promotions else 1 end;
      perform setval('__schema__.event_ids', nextval('__schema__.event_ids') + (promotions << 28));
      -- Never jump more than half of the numbers that are left: beyond its end a sequence fails, and publishing with it.
      perform setval('__schema__.workers_no_seq', s.last_value + least(promotions << 16, (2147483647 - s.last_value) / 2))
      from __schema__.workers_no_seq s;
      perform setval('__schema__.subscriptions_no_seq', s.last_value + least(promotions << 10, (2097151 - s.last_value) / 2))
      from __schema__.subscriptions_no_seq s;
      perform setval('__schema__.id_timeline', __schema__.current_timeline());
    end if;
  exception when query_canceled or others then
    perform pg_advisory_unlock(hashtextextended('__schema__', 7003));
    raise;
  end;
  perform pg_advisory_unlock(hashtextextended('__schema__', 7003));
end $$;

-- The timeline that the last alert about a promotion was sent for. One row.
create table __schema__.told_timeline (
  timeline bigint not null,
  told_at timestamptz not null
);
insert into __schema__.told_timeline (timeline, told_at) values (__schema__.current_timeline(), __schema__.clock());


-- Ids and times -----------------------------------------------------------------------------------------------------------
--
-- Ids follow the order of calls, times follow the clock, and the clock may step back: an event can have a higher id and an
-- earlier time than another event. A search for a time by ids must know how much earlier at most. Both numbers are in ms and
-- are kept in sequences for the same reason as the timeline.
create sequence __schema__.latest_draw as bigint minvalue 0 start 0;      -- the latest time that ids were drawn for
create sequence __schema__.draws_disorder as bigint minvalue 0 start 0;   -- how much earlier, where it was more than 50 s

-- Draws event ids for a call. The latest time is set before the ids are drawn and read after: when the ids and the times of
-- two calls differ in order, the call with the higher ids reads the later time. Within a second it is not set again.
create function __schema__.draw_event_ids(wanted int, moment timestamptz) returns bigint[] language plpgsql as $$
declare
  moment_ms bigint := extract(epoch from moment) * 1000;
  ids bigint[];
  earlier_ms bigint;
begin
  perform __schema__.follow_promotion();
  if moment_ms > (select d.last_value from __schema__.latest_draw d) + 1000 then
    perform setval('__schema__.latest_draw', moment_ms);
  end if;
  ids := array(select nextval('__schema__.event_ids') from generate_series(1, wanted));
  earlier_ms := (select d.last_value from __schema__.latest_draw d) - moment_ms;
  if earlier_ms > greatest(50000, (select d.last_value from __schema__.draws_disorder d)) then
    perform setval('__schema__.draws_disorder', earlier_ms + 10000);   -- the next call may be a little earlier still
  end if;
  return ids;
end $$;

-- By how much an event can be earlier than an event with a lower id: a minute, for publishes that take long and for small
-- steps of the clock, and what was measured beyond that.
create function __schema__.time_disorder() returns interval language sql stable as $$
  select interval '1 min' + d.last_value * interval '1 ms' from __schema__.draws_disorder d
$$;
