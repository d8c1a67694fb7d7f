import { defineStatement } from '../db/database.ts'

/*
 * The payloads of events, in order, as long as those before have fewer than $2 bytes together: so the first is always read. The length
 * of a payload is known without reading it.
 */

export const oldestPayloads = defineStatement(
  'read_oldest_payloads',
  `select p.id, p.created_at, p.payload
  from (
    select e.id, e.created_at, e.payload,
      sum(octet_length(e.payload)) over (order by e.id) - octet_length(e.payload) as bytes_before
    from __schema__.events e
    where e.id = any($1::bigint[])
  ) as p
  where p.bytes_before < $2
  order by p.id`,
)

export const newestPayloads = defineStatement(
  'read_newest_payloads',
  `select p.id, p.created_at, p.payload
  from (
    select e.id, e.created_at, e.payload,
      sum(octet_length(e.payload)) over (order by e.id desc) - octet_length(e.payload) as bytes_before
    from __schema__.events e
    where e.id = any($1::bigint[])
  ) as p
  where p.bytes_before < $2
  order by p.id desc`,
)
