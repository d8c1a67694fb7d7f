import { PosthornError } from '../../errors.ts'

export const headersMax = 50
const valueCharsMax = 4096
const namePattern = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/
/** What can stand in a header: no line breaks, which would begin another. */
const valuePattern = /^[\x20-\x7e\x80-\xff\t]*$/

/** They say how a message is framed or passed on, or are what receivers check us by. */
export const reservedHeader =
  /^(host|connection|keep-alive|upgrade|te|trailer|transfer-encoding|content-(type|length|encoding)|expect|accept-encoding|traceparent|tracestate|proxy-.*|webhook-.*|posthorn-.*|ce-.*)$/

/** A subscriber's own headers, in lower case; null: to be taken away. Throws BAD_FIELD. */
export function checkHeaders(headers: Readonly<Record<string, string | null>>): Map<string, string | null> {
  const entries = Object.entries(headers)
  if (entries.length > headersMax) throw refused('headers', `at most ${headersMax}`, `${entries.length}`)
  const checked = new Map<string, string | null>()
  for (const [given, value] of entries) {
    const name = given.toLowerCase()
    if (!namePattern.test(name)) throw refused('headers', 'with names that HTTP knows', given)
    if (reservedHeader.test(name))
      throw refused(`headers.${given}`, 'a header that is not ours to set', given)
    if (checked.has(name)) throw refused(`headers.${given}`, 'given once', given)
    if (value !== null && (value.length > valueCharsMax || !valuePattern.test(value))) {
      throw refused(`headers.${given}`, `up to ${valueCharsMax} characters on one line`, 'something else')
    }
    checked.set(name, value)
  }
  return checked
}

function refused(field: string, expected: string, value: string): PosthornError {
  return new PosthornError('BAD_FIELD', { field, expected, value })
}
