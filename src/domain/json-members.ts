import { badEvent } from './bad-value.ts'
import {
  badJson,
  closeBrace,
  closeBracket,
  colon,
  comma,
  endOfString,
  endOfValue,
  openBrace,
  openBracket,
  quote,
  skipSpace,
} from './json-scan.ts'

/**
 * Splits JSON text one level deep and leaves every value as text: whitespace, key order, duplicate keys and numbers of
 * twenty digits survive. The values are not checked here; the reader of a value parses it.
 */

/** A member of an object: `text` is the exact text of its value. */
export interface Member {
  readonly key: string
  readonly text: string
}

/** No object that is read here needs more members. */
const membersMax = 1_000

/** The members of a JSON object, in order. A name that occurs twice is ambiguous, so it is refused. */
export function readMembers(text: string, what: string): Member[] {
  let at = skipSpace(text, 0)
  if (text.charCodeAt(at) !== openBrace) throw badJson(`${what} is not an object`)
  const members: Member[] = []
  const seen = new Set<string>()
  at = skipSpace(text, at + 1)
  if (text.charCodeAt(at) === closeBrace) {
    checkEnd(text, at + 1)
    return members
  }
  for (;;) {
    if (text.charCodeAt(at) !== quote) throw badJson(`a name is expected at character ${at} of ${what}`)
    const afterName = endOfString(text, at)
    const key = nameOf(text, at, afterName)
    if (seen.has(key)) {
      throw badEvent(key, 'given once', 'twice')
    }
    seen.add(key)
    at = skipSpace(text, afterName)
    if (text.charCodeAt(at) !== colon) throw badJson(`a colon is expected at character ${at} of ${what}`)
    const start = skipSpace(text, at + 1)
    const end = endOfValue(text, start)
    members.push({ key, text: text.slice(start, end) })
    if (members.length > membersMax) throw badJson(`${what} has more than ${membersMax} members`)
    at = skipSpace(text, end)
    const next = text.charCodeAt(at)
    if (next === closeBrace) {
      checkEnd(text, at + 1)
      return members
    }
    if (next !== comma) throw badJson(`a comma is expected at character ${at} of ${what}`)
    at = skipSpace(text, at + 1)
  }
}

/** The exact texts of the elements of a JSON array. Reading stops at one element more than `elementsMax`. */
export function readElements(text: string, what: string, elementsMax = Number.POSITIVE_INFINITY): string[] {
  let at = skipSpace(text, 0)
  if (text.charCodeAt(at) !== openBracket) throw badJson(`${what} is not an array`)
  const elements: string[] = []
  at = skipSpace(text, at + 1)
  if (text.charCodeAt(at) === closeBracket) {
    checkEnd(text, at + 1)
    return elements
  }
  for (;;) {
    const end = endOfValue(text, at)
    elements.push(text.slice(at, end))
    if (elements.length > elementsMax) return elements
    at = skipSpace(text, end)
    const next = text.charCodeAt(at)
    if (next === closeBracket) {
      checkEnd(text, at + 1)
      return elements
    }
    if (next !== comma) throw badJson(`a comma is expected at character ${at} of ${what}`)
    at = skipSpace(text, at + 1)
  }
}

/** Parses the value of a member. */
export function parseMember({ key, text }: Member): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badJson(`the value of ${key} is not JSON`)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Strict, since a replaced byte could not be given back unchanged. */
export function decodeUtf8(bytes: Uint8Array): string {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw badJson('it is not UTF-8')
  }
  if (text.charCodeAt(0) === byteOrderMark) throw badJson('it begins with a byte order mark')
  return text
}

function nameOf(text: string, start: number, end: number): string {
  const name = text.slice(start + 1, end - 1)
  if (plainName.test(name)) return name
  try {
    return JSON.parse(text.slice(start, end)) as string
  } catch {
    throw badJson(`the name at character ${start} is not JSON`)
  }
}

const plainName = /^\w+$/

function checkEnd(text: string, from: number): void {
  const at = skipSpace(text, from)
  if (at < text.length) throw badJson(`it goes on after its end, at character ${at}`)
}

const byteOrderMark = 0xfeff
