import { readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { oldestStored, tableSizes } from './storage-statements.ts'

/** A table with its indexes. */
export interface StoredTable {
  readonly table: string
  readonly rows: number
  /** A large table is not counted: `rows` is then what the last vacuum or analyze saw. */
  readonly rowsAreEstimate: boolean
  readonly bytes: number
  /** The time of the oldest row, where it can be found without reading the whole table. */
  readonly oldestAt: Date | null
}

/** Larger tables are estimated. */
const countedBytesMax = 8 * 2 ** 20

/** All tables, the largest first. */
export async function readStorage(db: Database): Promise<StoredTable[]> {
  return readAtOnce(db, async (reader) => {
    const sizes = (await reader.query<Size>(tableSizes(db).text)).rows
    const oldest = (await reader.query<Record<string, Date | null>>(oldestStored(db).text)).rows[0] ?? {}
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

/** The name comes from the catalog, so quoting is enough. */
async function count(reader: Pick<Database, 'query'>, table: string): Promise<number> {
  const text = `select count(*)::float8 as count from __schema__."${table.replaceAll('"', '""')}"`
  const { rows } = await reader.query<{ count: number }>(text)
  return rows[0]?.count ?? 0
}
