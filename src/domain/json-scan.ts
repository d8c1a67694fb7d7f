import { PosthornError } from '../errors.ts'

/** Finds positions in JSON text without parsing it. Values are not checked; the reader of a value parses it. */

export const [quote, comma, colon] = [34, 44, 58]
export const [openBrace, closeBrace, openBracket, closeBracket] = [123, 125, 91, 93]
const backslash = 92

/** The end of the value that begins here: after its closing bracket or quote, or before the next delimiter. */
export function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === quote) return endOfString(text, start)
  if (first === openBrace || first === openBracket) return endOfNested(text, start)
  let at = start
  while (at < text.length && !isDelimiter(text.charCodeAt(at))) at++
  if (at === start) throw badJson(`a value is expected at character ${start}`)
  return at
}

function endOfNested(text: string, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === quote) at = endOfString(text, at) - 1
    else if (char === openBrace || char === openBracket) depth++
    else if ((char === closeBrace || char === closeBracket) && --depth === 0) return at + 1
  }
  throw badJson('it ends too early')
}

/** A quote ends the text, unless an odd number of backslashes precedes it. */
export function endOfString(text: string, start: number): number {
  let at = start
  for (;;) {
    at = text.indexOf('"', at + 1)
    if (at < 0) throw badJson('it ends within a text')
    let backslashes = 0
    while (text.charCodeAt(at - 1 - backslashes) === backslash) backslashes++
    if (backslashes % 2 === 0) return at + 1
  }
}

export function skipSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

function isSpace(char: number): boolean {
  return char === 32 || char === 10 || char === 13 || char === 9
}

function isDelimiter(char: number): boolean {
  return char === comma || char === closeBrace || char === closeBracket || isSpace(char)
}

export function badJson(reason: string): PosthornError {
  return new PosthornError('BAD_JSON', { reason })
}
