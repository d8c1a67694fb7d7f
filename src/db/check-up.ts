import type { Queryable } from './database.ts'

/** What a server says about its durability, its connections and its clock. */
export interface CheckUp {
  /** fsync, synchronous_commit, full_page_writes and data_checksums. */
  readonly settings: Readonly<Record<string, string>>
  /** How many connections roles without special rights may have. */
  readonly connectionsMax: number
  readonly connections: number
  /** How far the server's clock is ahead of this machine's; negative: behind. Exact to `clockErrorMs`. */
  readonly clockAheadMs: number
  readonly clockErrorMs: number
}

export async function checkUp(connection: Queryable): Promise<CheckUp> {
  const askedAtMs = machineClockMs()
  const { rows } = await connection.query<{ ms: number }>(readClock)
  const answeredAtMs = machineClockMs()
  const clockErrorMs = (answeredAtMs - askedAtMs) / 2
  const clockAheadMs = (rows[0]?.ms ?? 0) - (askedAtMs + clockErrorMs)
  const facts = await connection.query<Omit<CheckUp, 'clockAheadMs' | 'clockErrorMs'>>(readFacts)
  return { ...(facts.rows[0] as CheckUp), clockAheadMs, clockErrorMs }
}

const readClock = `select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`

/** pg_stat_database counts sessions also for roles that may not see the sessions of others. */
const readFacts = `
  select
    current_setting('max_connections')::int
      - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) as "connectionsMax",
    (select sum(numbackends)::int from pg_stat_database) as connections,
    (
      select json_object_agg(name, setting)
      from pg_settings
      where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums')
    ) as settings`

/** The only place that reads this machine's clock: to compare it with the server's. */
function machineClockMs(): number {
  return performance.timeOrigin + performance.now()
}
