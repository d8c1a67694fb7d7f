import { hiddenValue } from '../../domain/hidden-headers.ts'
import { PosthornError } from '../../errors.ts'
import type { SealedHeader, StoredHeaders } from './endpoint-rows.ts'
import { checkHeaders, headersMax } from './own-headers.ts'

/** What is said of a subscriber's own headers, when it is made or changed. */
export interface HeaderChange {
  /** Those that are left out stay; null takes one away. */
  readonly headers: Readonly<Record<string, string | null>>
  /** Whose values may be shown; undefined: those whose values are. */
  readonly publicHeaders: readonly string[] | undefined
}

export interface DefinedHeaders {
  readonly headers: StoredHeaders
  /** Those that have a new value nobody is shown. */
  readonly sealedHeaders: readonly SealedHeader[]
}

/** What a change makes of the headers that are stored. Throws BAD_FIELD. */
export function defineHeaders(
  { headers, publicHeaders }: HeaderChange,
  before: StoredHeaders,
  seal: (name: string, value: string) => SealedHeader,
): DefinedHeaders {
  const values = changedValues(checkHeaders(headers), before)
  const shown = shownNames(publicHeaders, values, before)
  const stored = new Map<string, string | null>()
  const sealedHeaders: SealedHeader[] = []
  for (const [name, value] of values) {
    if (shown.has(name) && value === null) {
      throw refused('public_headers', `those with values: ${name} is hidden, so give its value anew`, name)
    }
    stored.set(name, shown.has(name) ? value : null)
    if (value !== null && !shown.has(name)) sealedHeaders.push(seal(name, value))
  }
  return { headers: Object.fromEntries(stored), sealedHeaders }
}

/**
 * A hidden value was given for one receiver. Whoever changes the origin must know the value or give it up: otherwise
 * a key that may manage subscribers could have it sent to a receiver of its own. Throws BAD_FIELD.
 */
export function checkKeptSecrets(
  { url, headers }: Pick<HeaderChange, 'headers'> & { readonly url: string },
  before: { readonly url: string; readonly headers: StoredHeaders },
): void {
  if (new URL(url).origin === new URL(before.url).origin) return
  const given = checkHeaders(headers)
  const isKept = (name: string) => !given.has(name) || given.get(name) === hiddenValue
  const hidden = Object.keys(before.headers).filter((name) => before.headers[name] === null)
  const kept = hidden.filter(isKept).sort()
  if (kept[0] === undefined) return
  const expected = `given anew or null, since the url leads to another origin and these are hidden: ${kept.join(', ')}`
  throw refused(`headers.${kept[0]}`, expected, hiddenValue)
}

/** All there are from now on. Null: the value is sealed, and stays so. */
function changedValues(given: ReadonlyMap<string, string | null>, before: StoredHeaders) {
  const values = new Map(Object.entries(before))
  for (const [name, value] of given) {
    if (value === null) values.delete(name)
    // Whoever writes back what was read means what is stored.
    else if (value !== hiddenValue) values.set(name, value)
    else if (values.get(name) !== null) {
      throw refused(`headers.${name}`, `a value: ${hiddenValue} stands for one that is stored already`, value)
    }
  }
  if (values.size > headersMax) throw refused('headers', `at most ${headersMax}`, String(values.size))
  return values
}

function shownNames(
  given: readonly string[] | undefined,
  values: ReadonlyMap<string, string | null>,
  before: StoredHeaders,
): ReadonlySet<string> {
  if (given === undefined) return new Set(Object.keys(before).filter((name) => before[name] !== null))
  const names = given.map((name) => name.toLowerCase())
  const unknown = names.find((name) => !values.has(name))
  if (unknown !== undefined) throw refused('public_headers', 'names of headers', unknown)
  return new Set(names)
}

function refused(field: string, expected: string, value: string): PosthornError {
  return new PosthornError('BAD_FIELD', { field, expected, value })
}
