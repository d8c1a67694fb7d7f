import { hiddenValue, isHidden } from '../../domain/hidden-headers.ts'
import { type Ending, type Reading, readingsOf, textsOf, wholeLength } from './escapes.ts'

/** Hiding a shorter value would hide half of a response, and it is no secret. */
const secretCharsMin = 4

/** The hidden parts of a request, in every form in which a receiver may repeat them after escapes are undone. */
export function secretTexts(
  url: string,
  headers: Readonly<Record<string, string>>,
  hidden: ReadonlySet<string>,
): string[] {
  const values = querySecrets(url)
  for (const name in headers) {
    if (!isHidden(name, hidden)) continue
    // A receiver gets the value without the spaces around it.
    const value = (headers[name] as string).trim()
    // Receivers often repeat `Bearer abc` without the scheme.
    values.push(value, value.replace(/^\S+\s+/, ''))
    if (name.toLowerCase() === 'cookie') values.push(...cookieValues(value))
  }
  const texts = new Set<string>()
  for (const value of values) {
    // A part of the value that looks like an escape is undone together with the receiver's escapes.
    for (const text of textsOf(value)) for (const form of bytewise(text)) texts.add(form)
  }
  return [...texts].filter((text) => text.length >= secretCharsMin)
}

function cookieValues(cookie: string): string[] {
  return cookie.split(';').map((pair) => pair.slice(pair.indexOf('=') + 1).trim())
}

/** The query as it was sent, and its decoded values. */
function querySecrets(url: string): string[] {
  const start = url.indexOf('?')
  if (start === -1) return []
  const query = url.slice(start + 1)
  return [query, ...new URLSearchParams(query).values()]
}

/** A header is sent in Latin-1. A receiver that repeats it may take it for UTF-8, or the reverse. */
function bytewise(text: string): string[] {
  if (!/[^\0-\x7f]/.test(text)) return [text]
  return [text, Buffer.from(text).toString('latin1'), Buffer.from(text, 'latin1').toString()]
}

/** Hides secrets in the names of headers, which have no case. */
export function hideInNames<Value>(
  headers: Readonly<Record<string, Value>>,
  secrets: readonly string[],
): Record<string, Value> {
  if (secrets.length === 0) return { ...headers }
  const lower = secrets.map((secret) => secret.toLowerCase())
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [hideTexts(name.toLowerCase(), lower), value]),
  )
}

/** Replaces every secret in the text. The time grows with the length of text and secrets, whatever they contain. */
export function hideTexts(text: string, secrets: readonly string[], ending: Ending = 'whole'): string {
  if (ending === 'whole' && text.length < secretCharsMin) return text
  const spans: Span[] = []
  for (const reading of readingsOf(text, ending)) {
    const add = (start: number, end: number) => addSpan(spans, reading.placeOf(start), reading.placeOf(end))
    for (const secret of secrets) {
      // Undoing escapes never makes a text longer.
      if (ending === 'whole' && secret.length > reading.text.length) continue
      const beginning = findIn(reading, secret, { ending, add })
      if (beginning !== null) addSpan(spans, reading.placeOf(beginning), text.length)
    }
  }
  return spans.length === 0 ? text : cover(text, spans)
}

interface Span {
  readonly start: number
  end: number
}

interface Search {
  readonly ending: Ending
  readonly add: (start: number, end: number) => void
}

/**
 * Adds every place of the secret. Returns the place where a secret begins that the end of the text cuts, or null. The algorithm
 * is Knuth-Morris-Pratt, so that no text makes it slow.
 */
function findIn({ text }: Reading, secret: string, { ending, add }: Search): number | null {
  const cuts = ending === 'cut' ? [wholeLength(text), text.length] : []
  const from = firstPlace(text, secret, cuts)
  if (from === text.length) return null
  const borders = bordersOf(secret)
  let matched = 0
  let beginning: number | null = null
  for (let end = from + 1; end <= text.length; end++) {
    matched = longer(secret, borders, matched, text.charCodeAt(end - 1))
    if (matched === secret.length) add(end - matched, end)
    else if (matched > 0 && cuts.includes(end)) beginning ??= end - matched
  }
  return beginning
}

/** Where the search begins: most texts do not contain the secret. Just before a cut its beginning may be too short to find. */
function firstPlace(text: string, secret: string, [cut]: readonly number[]): number {
  const place = text.indexOf(secret.slice(0, secretCharsMin))
  const last = cut === undefined ? text.length : Math.max(0, cut - secretCharsMin)
  return place === -1 ? last : Math.min(place, last)
}

/** For each prefix of the secret, the length of the longest shorter prefix that it ends with. */
function bordersOf(secret: string): Uint32Array {
  const borders = new Uint32Array(secret.length + 1)
  for (let length = 2; length <= secret.length; length++) {
    const before = borders[length - 1] as number
    borders[length] = longer(secret, borders, before, secret.charCodeAt(length - 1))
  }
  return borders
}

/** How much of the secret is matched after one more character. */
function longer(secret: string, borders: Uint32Array, matched: number, char: number): number {
  let length = matched
  while (length > 0 && (length === secret.length || secret.charCodeAt(length) !== char)) {
    length = borders[length] as number
  }
  return secret.charCodeAt(length) === char ? length + 1 : 0
}

/** A span that overlaps the last one extends it, so the number of spans stays bounded by the text. */
function addSpan(spans: Span[], start: number, end: number): void {
  const last = spans.at(-1)
  if (last !== undefined && last.start <= start && start < last.end) last.end = Math.max(last.end, end)
  else spans.push({ start, end })
}

function cover(text: string, spans: Span[]): string {
  let shown = ''
  let from = 0
  for (const { start, end } of spans.sort((a, b) => a.start - b.start || b.end - a.end)) {
    if (start >= from) shown += text.slice(from, start) + hiddenValue
    from = Math.max(from, end)
  }
  return shown + text.slice(from)
}
