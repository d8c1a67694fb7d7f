import pg from 'pg'

/**
 * How our own queries turn column values into JavaScript values. The parsers are passed with each query, so that the global
 * parsers of `pg` belong to the application: we do not change them, and do not depend on them.
 */
export const valueTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    (format !== 'binary' && parsers.get(oid)) || pg.types.getTypeParser(oid, format)) as never,
}

type Parser = (text: string) => unknown

const parsers = new Map<number, Parser>([
  [16, (text) => text === 't'],
  [20, parseInt8],
  [21, Number],
  [23, Number],
  [25, String],
  [26, Number],
  [114, (text) => JSON.parse(text)],
  [701, Number],
  [1000, (text) => parseArray(text, (item) => item === 't')],
  [1007, (text) => parseArray(text, Number)],
  [1009, (text) => parseArray(text, String)],
  [1016, (text) => parseArray(text, parseInt8)],
  [1184, parseTimestamp],
  [1185, (text) => parseArray(text, parseTimestamp)],
  [3802, (text) => JSON.parse(text)],
])

/** A number if it is exact, as for every id of ours; otherwise a bigint, never a rounded number. */
function parseInt8(text: string): number | bigint {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}

/** From `2026-11-15 19:37:00.123456+00`, to the millisecond. */
function parseTimestamp(text: string): Date | number {
  if (text === 'infinity') return Number.POSITIVE_INFINITY
  if (text === '-infinity') return Number.NEGATIVE_INFINITY
  const parts = timestampPattern.exec(text)
  const date = new Date(
    parts === null ? Number.NaN : `${parts[1]}T${parts[2]}${parts[3]}:${parts[4] ?? '00'}`,
  )
  if (Number.isNaN(date.getTime())) throw new RangeError(`Expected an ISO timestamp, got ${text}.`)
  return date
}

const timestampPattern = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,3})?)\d*([+-]\d\d)(?::(\d\d))?$/

function parseArray(text: string, parseItem: Parser): unknown[] {
  return arrayParser.create(text, parseItem).parse()
}

/** The published types are wrong here: they describe a function that the package does not have. */
const arrayParser = pg.types.arrayParser as unknown as {
  create(text: string, parseItem: Parser): { parse(): unknown[] }
}
