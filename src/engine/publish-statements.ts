import { defineStatement } from '../db/database.ts'

/**
 * Publishes events: the drawing is above the SQL function `publish_many`. The columns have no bigint, array or time, because a
 * caller's driver may read those in its own way. Most events of a call have the same answer except for their ids, so the answer
 * is one row and not a thousand.
 */
export const publishStatement = defineStatement(
  'publish',
  `select string_agg(place::text, ',') as places, string_agg(id::text, ',') as ids, replayed, conflict, owed,
    date_part('epoch', created_at) * 1000 as at, handed, date_part('epoch', ends_at) * 1000 as ends,
    refused, pressed
  from __schema__.publish_many($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::timestamptz[],
    $15::timestamptz[], $16::smallint[], $17::text[], $18::bytea[], $19::boolean[], $20::text[], $21::text[], $22, $23::int[],
    $24::int[], $25::bigint, $26::int, $27::boolean, $28::int[])
  group by replayed, conflict, owed, created_at, handed, ends_at, refused, pressed`,
)

export const isRoutedStatement = defineStatement(
  'is_routed',
  `select r.owed <> '{}' from __schema__.route($1, null) as r`,
)

export const readIdRangeStatement = defineStatement(
  'read_event_ids',
  `select s.seqmin, q.is_called
  from pg_sequence s, __schema__.event_ids q
  where s.seqrelid = '__schema__.event_ids'::regclass`,
)

export const readClockStatement = defineStatement(
  'read_clock',
  `select date_part('epoch', __schema__.clock()) * 1000`,
)

export const readClockOffsetStatement = defineStatement(
  'read_clock_offset',
  `select round(date_part('epoch', __schema__.clock() - statement_timestamp()) * 1000)::float8`,
)

export const markNowStatement = defineStatement('mark_now', 'select pg_current_xact_id()::text')
