/** Payloads as JSON text: what is sent, byte for byte, and where it stands in an answer that holds it. */
import { createHash } from 'node:crypto'

/** Short enough for a history, long enough that no two payloads share it. */
export const digestOf = (text) => createHash('sha256').update(text).digest('hex').slice(0, digestChars)
export const digestChars = 16

/** What parsing and printing would change: spaces, forms of numbers, escapes, a name that comes twice, letters beyond ASCII. */
const fragile = String.raw`"odd" : [1.0, -0, 1e2, "\u0061\/é…"],"twice":1 ,"twice" :2`

/** Always the same for one event. A third of the events is written as no printer would write it. */
export function payloadTextOf({ u, payload }) {
  const text = JSON.stringify(payload)
  return isFragile(u) ? `{ ${fragile},\n${text.slice(1)}` : text
}

export const isFragile = (u) => u % 3 === 0

/** JSON text of an object whose last member is given as text. */
export const withMember = (fields, name, text) => {
  const head = JSON.stringify(fields).slice(0, -1)
  return `${head}${head === '{' ? '' : ','}"${name}":${text}}`
}

/** The text of a member of an object, as it stands there; undefined: it has none of that name. */
export function memberText(text, wanted) {
  let at = skipSpace(text, skipSpace(text, 0) + 1)
  while (text[at] === '"') {
    const nameEnd = endOfValue(text, at)
    const name = JSON.parse(text.slice(at, nameEnd))
    const from = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = endOfValue(text, from)
    if (name === wanted) return text.slice(from, end)
    at = skipSpace(text, skipSpace(text, end) + 1)
  }
  return undefined
}

/** The texts of the elements of an array; of anything else, that alone. */
export function elementTexts(text) {
  let at = skipSpace(text, 0)
  if (text[at] !== '[') return [text]
  const elements = []
  at = skipSpace(text, at + 1)
  while (at < text.length && text[at] !== ']') {
    const end = endOfValue(text, at)
    elements.push(text.slice(at, end))
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return elements
}

function skipSpace(text, from) {
  let at = from
  while (' \n\r\t'.includes(text[at] ?? '!')) at++
  return at
}

const string = /"(?:[^"\\]|\\.)*"/suy
const plain = /[^\s,\]}]+/uy
const inside = /[^"[\]{}]+/uy

function endOf(pattern, text, at) {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

function endOfValue(text, from) {
  if (text[from] === '"') return endOf(string, text, from)
  if (text[from] !== '{' && text[from] !== '[') return endOf(plain, text, from)
  let depth = 0
  for (let at = from; at < text.length; ) {
    const char = text[at]
    if (char === '"') at = endOf(string, text, at)
    else if (char === '{' || char === '[') {
      depth++
      at++
    } else if (char === '}' || char === ']') {
      at++
      if (--depth === 0) return at
    } else at = endOf(inside, text, at)
  }
  return text.length
}
