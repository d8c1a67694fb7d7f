import type { Queryable } from '../db/database.ts'
import { checkAdapted, notOutside } from '../domain/caller-transaction.ts'
import { withTextArrays } from './text-arrays.ts'

interface KyselyTransaction {
  withoutPlugins(): { executeQuery(query: never): Promise<KyselyResult> }
}

interface KyselyResult {
  readonly rows: unknown[]
  readonly numAffectedRows?: bigint
}

/** `await db.transaction().execute((trx) => hub.publish(event, { tx: fromKysely(trx) }))` */
export function fromKysely(trx: KyselyTransaction): Queryable {
  checkAdapted('Kysely', trx, 'withoutPlugins')
  notOutside('Kysely', (trx as { isTransaction?: boolean }).isTransaction === false)
  // Plugins such as CamelCasePlugin would rename the columns of our rows.
  const plain = trx.withoutPlugins()
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      const { rows, numAffectedRows } = await plain.executeQuery(
        compiled(text, withTextArrays(values)) as never,
      )
      return {
        rows: rows as Row[],
        rowCount: numAffectedRows === undefined ? rows.length : Number(numAffectedRows),
      }
    },
  }
}

/** The same object that Kysely's `CompiledQuery.raw` makes. */
function compiled(sql: string, parameters: unknown[]) {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  return { sql, parameters, query, queryId: { queryId: 'posthorn' } }
}
