import { hiddenValue } from '../../domain/hidden-headers.ts'
import { PosthornError } from '../../errors.ts'
import type { EndpointChange, SealedHeader, StoredHeaders } from './endpoint-rows.ts'

/** A change of a subscriber's own headers. */
export interface HeaderChange {
  /** Headers that are left out stay; null takes one away. */
  readonly headers: Readonly<Record<string, string | null>>
  /** Headers whose values may be shown; undefined: those whose values are shown now. */
  readonly publicHeaders: readonly string[] | undefined
}

const headersMax = 50
const valueCharsMax = 4096
const namePattern = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/
/** Without line breaks, which would begin another header. */
const valuePattern = /^[\x20-\x7e\x80-\xff\t]*$/
/** Headers that frame or route a message, and those that receivers verify us by. */
const reservedHeader =
  /^(host|connection|keep-alive|upgrade|te|trailer|transfer-encoding|content-(type|length|encoding)|expect|accept-encoding|traceparent|tracestate|proxy-.*|webhook-.*|posthorn-.*|ce-.*)$/

/** The stored headers after a change, and those with a new hidden value. Throws BAD_FIELD. */
export function defineHeaders(
  { headers, publicHeaders }: HeaderChange,
  before: StoredHeaders,
  seal: (name: string, value: string) => SealedHeader,
): Pick<EndpointChange, 'headers' | 'sealedHeaders'> {
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
 * A hidden value was given for one receiver. A caller that changes the origin must know the value or take it away: otherwise a
 * key that may manage subscribers could have the value sent to a receiver of its own. Throws BAD_FIELD.
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

/** The given headers, with names in lower case. */
function checkHeaders(headers: HeaderChange['headers']): Map<string, string | null> {
  const entries = Object.entries(headers)
  if (entries.length > headersMax) throw refused('headers', `at most ${headersMax}`, `${entries.length}`)
  const checked = new Map<string, string | null>()
  for (const [given, value] of entries) {
    const name = given.toLowerCase()
    if (!namePattern.test(name)) throw refused('headers', 'an object with valid HTTP header names', given)
    if (reservedHeader.test(name)) {
      throw refused(`headers.${given}`, 'a header that Posthorn does not set itself', given)
    }
    if (checked.has(name)) throw refused(`headers.${given}`, 'given once', given)
    if (value !== null && (value.length > valueCharsMax || !valuePattern.test(value))) {
      throw refused(`headers.${given}`, `up to ${valueCharsMax} characters on one line`, 'something else')
    }
    checked.set(name, value)
  }
  return checked
}

/** All headers after the change. Null: the sealed value stays. */
function changedValues(given: ReadonlyMap<string, string | null>, before: StoredHeaders) {
  const values = new Map(Object.entries(before))
  for (const [name, value] of given) {
    if (value === null) values.delete(name)
    // A caller that writes back what it has read means the stored value.
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
