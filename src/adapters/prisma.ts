import type { Queryable } from '../db/database.ts'
import { checkAdapted, notOutside } from '../domain/caller-transaction.ts'
import { withTextArrays } from './text-arrays.ts'

interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>
}

/** `await prisma.$transaction((tx) => hub.publish(event, { tx: fromPrisma(tx) }))` */
export function fromPrisma(tx: PrismaTransaction): Queryable {
  checkAdapted('Prisma', tx, '$queryRawUnsafe')
  // Prisma removes this method from its transactions.
  notOutside('Prisma', typeof (tx as { $connect?: unknown }).$connect === 'function')
  return {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      const rows = (await tx.$queryRawUnsafe(text, ...withTextArrays(values))) as Row[]
      // Prisma gives no count, so without rows it is unknown.
      return { rows, rowCount: rows.length === 0 ? null : rows.length }
    },
  }
}
