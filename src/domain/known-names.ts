import { badOption } from './bad-value.ts'

/** The names that an object may have. TypeScript reports a name that is missing or stale. */
export type NamesOf<Options> = Readonly<Record<keyof Options & string, unknown>>

/** Refuses options that would be ignored: mistyped, or meant for another call. */
export function checkOptions(
  given: object,
  known: Readonly<Record<string, unknown>>,
  whose: string,
  { prefix = '', meant = {} }: { prefix?: string; meant?: Readonly<Record<string, string>> } = {},
): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw badOption(whose, 'an object', given)
  }
  const name = unknownName(given, known)
  if (name === undefined) return
  const expected = leftOut(name, Object.keys(known), `${whose} has no such option`, meant)
  // Only the type of the value: the mistyped name may be that of a secret.
  throw badOption(prefix + name, expected, `a ${typeof (given as Record<string, unknown>)[name]}`)
}

export function unknownName(given: object, known: Readonly<Record<string, unknown>>): string | undefined {
  for (const name in given) if (!Object.hasOwn(known, name)) return name
  return undefined
}

/** The expectation for an unknown name: it suggests the known name that was probably meant, or lists all of them. */
export function leftOut(
  name: string,
  known: readonly string[],
  why: string,
  meant: Readonly<Record<string, string>> = {},
): string {
  const given = plain(name.slice(0, nameCharsMax))
  const foreign = Object.keys(meant).find((one) => plain(one) === given)
  const hint = foreign === undefined ? nearestName(name, known) : meant[foreign]
  if (hint !== undefined) return `left out: ${why} (did you mean ${hint}?)`
  return known.length === 0 ? `left out: ${why}` : `left out: ${why} (known: ${known.join(', ')})`
}

/** The most similar known name; undefined if all differ too much for a typing error. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = plain(name.slice(0, nameCharsMax))
  let nearest: string | undefined
  let distance = Math.max(2, Math.ceil(given.length / 3)) + 1
  for (const candidate of known) {
    const edits = editDistance(given, plain(candidate))
    if (edits < distance) [nearest, distance] = [candidate, edits]
  }
  return nearest
}

const nameCharsMax = 100

/** `ordering_key`, `orderingKey` and `Ordering-Key` are the same name in different spellings. */
function plain(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase()
}

/** The number of letters to add, remove or change: Levenshtein's distance, row by row. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (const [line, letter] of [...from].entries()) {
    const next = [line + 1]
    for (let column = 1; column <= to.length; column++) {
      const changed = (row[column - 1] as number) + (letter === to[column - 1] ? 0 : 1)
      next.push(Math.min(changed, (row[column] as number) + 1, (next[column - 1] as number) + 1))
    }
    row = next
  }
  return row[to.length] as number
}
