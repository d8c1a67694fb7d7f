import { badOption } from './bad-value.ts'

/** A transaction of the caller: anything that runs SQL inside it. A `pg` client is one; adapters make others. */
export interface CallerTransaction {
  query(text: string, values?: readonly unknown[]): Promise<{ rows: readonly unknown[] }>
}

/**
 * Refuses a pool, whose statements would each commit alone, and any object without `query(text, values)`. Both are recognised
 * by their form, since an application has its own copy of the driver.
 */
export function checkTransaction(tx: unknown): CallerTransaction {
  if (isPool(tx)) {
    throw badTransaction('a transaction, or a client of the pool that has begun one', 'a pool')
  }
  if (isRecord(tx) && typeof tx.query === 'function') return tx as unknown as CallerTransaction
  const adapter = adapterFor(tx)
  if (adapter === undefined) throw badTransaction('a transaction that has query(text, values)', tx)
  const [library, call, path] = adapter
  throw badTransaction(`${call} of posthorn/adapters/${path}`, `an object of ${library}`)
}

/** The rows of an answer. The `query` of some libraries returns a bare array, or nothing. */
export function rowsOf(answer: unknown): readonly unknown[] {
  if (isRecord(answer) && Array.isArray(answer.rows)) return answer.rows
  throw badTransaction('a transaction whose query(text, values) resolves to { rows }', answer)
}

/** For adapters: refuses an object of another library. */
export function checkAdapted(library: string, tx: unknown, method: string): void {
  if (isRecord(tx) && typeof tx[method] === 'function') return
  const [other] = adapterFor(tx) ?? []
  throw badTransaction(`a transaction of ${library}`, other === undefined ? tx : `an object of ${other}`)
}

/** For adapters: refuses an object that is not a transaction. */
export function notOutside(library: string, isOutside: boolean): void {
  if (isOutside) throw badTransaction('a transaction', `${library} outside of one`)
}

/** A `pg.Pool` of any copy of the driver: a client also has `connect`, but no counts of clients. */
export function isPool(given: unknown): boolean {
  if (!isRecord(given) || typeof given.connect !== 'function') return false
  return typeof given.totalCount === 'number' && typeof given.idleCount === 'number'
}

/** The `sql` of postgres.js outside a transaction. With a single connection, a transaction may have begun by hand. */
export function isPostgresJsPool(given: unknown): boolean {
  if (!isRecord(given) || typeof given.begin !== 'function' || typeof given.unsafe !== 'function')
    return false
  return (given.options as { max?: unknown } | undefined)?.max !== 1
}

type Adapter = readonly [library: string, call: string, path: string]

function adapterFor(tx: unknown): Adapter | undefined {
  if (!isRecord(tx)) return undefined
  const has = (name: string) => typeof tx[name] === 'function'
  if (has('$queryRawUnsafe')) return ['Prisma', 'fromPrisma(tx)', 'prisma']
  if (has('unsafe')) return ['postgres.js', 'fromPostgresJs(sql)', 'postgres-js']
  if (has('executeQuery')) return ['Kysely', 'fromKysely(trx)', 'kysely']
  if (has('raw')) return ['Knex', 'fromKnex(trx)', 'knex']
  if (has('execute')) return ['Drizzle', 'fromDrizzle(tx)', 'drizzle']
  return undefined
}

/** The transactions of some libraries are functions with members. */
function isRecord(value: unknown): value is Record<string, unknown> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

export function badTransaction(expected: string, value: unknown): Error {
  return badOption('tx', expected, value)
}
