import { readAtOnce } from '../core/reader.ts'
import { type Database, defineStatement } from '../db/database.ts'

/** One table, with its indexes. */
export interface StoredTable {
  readonly table: string
  readonly rows: number
  /** Counting a large table takes long: then it is what the last vacuum or analyze has seen. */
  readonly rowsAreEstimate: boolean
  readonly bytes: number
  /** When the oldest of it is from, where that is known without reading all of it. */
  readonly oldestAt: Date | null
}

/** Tables up to so many bytes are counted. */
const countedBytesMax = 8 * 2 ** 20

/** How much there is of everything, the largest first. */
export async function readStorage(db: Database): Promise<StoredTable[]> {
  return readAtOnce(db, async (reader) => {
    const sizes = (await reader.query<Size>(tableSizes(db).text)).rows
    const oldest = (await reader.query<Record<string, Date | null>>(oldestStatement(db).text)).rows[0] ?? {}
    const tables: StoredTable[] = []
    for (const { table, bytes, heapBytes, estimate } of sizes) {
      const isCounted = heapBytes <= countedBytesMax
      const rows = isCounted ? await count(reader, table) : Math.max(0, estimate)
      tables.push({ table, rows, rowsAreEstimate: !isCounted, bytes, oldestAt: oldest[table] ?? null })
    }
    return tables
  })
}

interface Size {
  readonly table: string
  readonly bytes: number
  readonly heapBytes: number
  readonly estimate: number
}

export const tableSizes = defineStatement(
  'table_sizes',
  `select c.relname as table, pg_total_relation_size(c.oid)::float8 as bytes, pg_relation_size(c.oid)::float8 as "heapBytes",
    c.reltuples::float8 as estimate
  from pg_class c
  where c.relnamespace = '__schema__'::regnamespace and c.relkind = 'r'
  order by 2 desc, 1`,
)

/** A name of the catalogue, so it needs quoting at most. */
async function count(reader: Pick<Database, 'query'>, table: string): Promise<number> {
  const text = `select count(*)::float8 as count from __schema__."${table.replaceAll('"', '""')}"`
  const { rows } = await reader.query<{ count: number }>(text)
  return rows[0]?.count ?? 0
}

const oldestStatement = defineStatement(
  'oldest_stored',
  `select
    (select e.created_at from __schema__.events e order by e.id limit 1) as events,
    (select a.finished_at from __schema__.audit a order by a.event_id, a.settlement limit 1) as audit,
    (select d.buried_at from __schema__.dead_letters d order by d.id limit 1) as dead_letters,
    (select min(k.created_at) from __schema__.idempotency_keys k) as idempotency_keys,
    (select min(r.finished_at) from __schema__.removals r) as removals,
    (select l.at from __schema__.admin_log l order by l.id limit 1) as admin_log,
    (select r.created_at from __schema__.replays r order by r.id limit 1) as replays,
    (select min(c.created_at) from __schema__.queue_checkpoints c) as queue_checkpoints,
    (select r.recovery_start_time from __schema__.queue_recoveries r order by r.id limit 1) as queue_recoveries`,
)
