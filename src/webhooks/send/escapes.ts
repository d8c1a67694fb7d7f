/** Whether a text is complete, or only the beginning of one. */
export type Ending = 'whole' | 'cut'

/** A text after its escapes were undone, with the place of each of its characters in the original text. */
export interface Reading {
  readonly text: string
  /** Also for the end of the text. */
  placeOf(at: number): number
}

/** Escapes of URLs and forms, of HTML, and of strings in JSON and similar languages. */
const anyEscape =
  /%[0-9a-f]{2}|\+|&(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-f]{1,6});|\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|["'\\/bfnrt])/gi
/** Every escape begins with one of these; most texts have none. */
const marks = /[%+&\\]/
/** The beginning of an escape, or of a UTF-8 character, at the end of a text that was cut. */
const brokenEscape = /(?:%[0-9a-f]?|&[#0-9a-z]{0,8}|\\(?:u[0-9a-f]{0,3}|x[0-9a-f]?)?|\ufffd{1,3})$/i
/** Long enough for a whole escape before a broken one: the second of two backslashes begins no escape. */
const tailChars = 64

/**
 * A value in a link that is quoted in JSON is escaped twice, and a value may itself look escaped. After undoing escapes until
 * none is left, the value and its repetition are the same.
 */
const undoneMax = 6

/** The text as it came, and then with its escapes undone, again and again, until none is left. */
export function readingsOf(text: string, ending: Ending): Reading[] {
  const readings: Reading[] = [{ text, placeOf: (at) => at }]
  for (let undone = 0; undone < undoneMax; undone++) {
    const { text: escaped, placeOf } = readings[undone] as Reading
    // An escape that the cut broke means nothing, and would separate two that do.
    const next = undo({ text: ending === 'cut' ? escaped.slice(0, wholeLength(escaped)) : escaped, placeOf })
    if (next === null) break
    readings.push(next)
  }
  return readings
}

/** The same without places. */
export function textsOf(text: string): string[] {
  return readingsOf(text, 'whole').map((reading) => reading.text)
}

/** The length of a cut text without the escape that the cut broke. */
export function wholeLength(text: string): number {
  const tail = text.slice(-tailChars).replace(anyEscape, (found) => '-'.repeat(found.length))
  const broken = tail.search(brokenEscape)
  return broken === -1 ? text.length : text.length - tail.length + broken
}

/** Null: the text has no escapes. */
function undo({ text, placeOf }: Reading): Reading | null {
  if (!marks.test(text)) return null
  const starts = new Uint32Array(text.length + 1)
  let undone = ''
  let from = 0
  const append = (part: string, start: number, step: 0 | 1) => {
    for (let at = 0; at < part.length; at++) starts[undone.length + at] = start + at * step
    undone += part
  }
  for (const { 0: found, index } of text.matchAll(anyEscape)) {
    append(text.slice(from, index), from, 1)
    append(meaningOf(found), index, 0)
    from = index + found.length
  }
  if (from === 0) return null
  append(text.slice(from), from, 1)
  starts[undone.length] = text.length
  return { text: undone, placeOf: (at) => placeOf(starts[at] as number) }
}

const named: Readonly<Record<string, string>> = {
  '+': ' ',
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&apos;': "'",
  '\\b': '\b',
  '\\f': '\f',
  '\\n': '\n',
  '\\r': '\r',
  '\\t': '\t',
}

function meaningOf(found: string): string {
  const lower = found.toLowerCase()
  const name = named[lower]
  if (name !== undefined) return name
  if (lower.startsWith('%')) return charOf(lower.slice(1), 16)
  if (lower.startsWith('&#x')) return charOf(lower.slice(3, -1), 16)
  if (lower.startsWith('&#')) return charOf(lower.slice(2, -1), 10)
  return lower.length > 2 ? charOf(lower.slice(2), 16) : found.slice(1)
}

/** Always at least one character. */
function charOf(digits: string, base: 10 | 16): string {
  const code = Number.parseInt(digits, base)
  return code > 0x10ffff ? '\ufffd' : String.fromCodePoint(code)
}
