/**
 * Lists as PostgreSQL writes them (`{"a",NULL}`). Libraries disagree about array parameters (Prisma guesses a type,
 * postgres.js may not know the array types, Drizzle spreads them), but all of them pass text on as it is.
 */
export function withTextArrays(values: readonly unknown[]): unknown[] {
  return values.map((value) => (Array.isArray(value) ? arrayText(value) : value))
}

function arrayText(list: readonly unknown[]): string {
  return `{${list.map(elementText).join(',')}}`
}

function elementText(element: unknown): string {
  if (element === null || element === undefined) return 'NULL'
  if (Array.isArray(element)) return arrayText(element)
  return `"${plainText(element).replace(/["\\]/g, '\\$&')}"`
}

function plainText(element: unknown): string {
  if (element instanceof Date) return element.toISOString()
  if (element instanceof Uint8Array) return `\\x${Buffer.from(element).toString('hex')}`
  return String(element)
}
