import type { Queryable } from '../db/database.ts'
import { checkAdapted, notOutside } from '../domain/caller-transaction.ts'
import { withTextArrays } from './text-arrays.ts'

interface KnexTransaction {
  raw(text: string): { options(options: Readonly<Record<string, unknown>>): PromiseLike<PgResult> }
}

interface PgResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
}

/** `await knex.transaction((trx) => hub.publish(event, { tx: fromKnex(trx) }))` */
export function fromKnex(trx: KnexTransaction): Queryable {
  checkAdapted('Knex', trx, 'raw')
  notOutside('Knex', (trx as { isTransaction?: boolean }).isTransaction !== true)
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      // Knex hands the options to pg over its own reading of the text, in which every ? is a binding. The
      // text in front, with each ? escaped, is what its logs and query events show.
      const options = { text, values: withTextArrays(values) }
      const { rows, rowCount } = await trx.raw(text.replaceAll('?', '\\?')).options(options)
      return { rows: rows as Row[], rowCount }
    },
  }
}
