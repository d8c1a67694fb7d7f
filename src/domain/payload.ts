import { PosthornError } from '../errors.ts'
import { isStorable } from './text.ts'

export const payloadBytesMax = 1_048_576
export const payloadNestingMax = 64

/** The JSON text that is stored for a value. */
export function stringifyPayload(payload: unknown): string {
  const text = stringify(payload)
  checkSize(text)
  checkNesting(text)
  return text
}

/** Checks text and returns it unchanged: parsing and printing it would change numbers and keys. */
export function checkPayloadText(text: string): string {
  checkSize(text)
  checkNesting(text)
  // JSON.parse accepts half of a surrogate pair, which UTF-8 cannot encode. It refuses a raw NUL itself.
  if (!isStorable(text)) throw badPayload('it holds a character that UTF-8 text cannot')
  try {
    JSON.parse(text)
  } catch (error) {
    throw badPayload(reasonOf(error), error)
  }
  return text
}

function stringify(payload: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch (error) {
    throw badPayload(reasonOf(error), error)
  }
  if (text === undefined) throw badPayload(`a value of type ${typeof payload} has no JSON form`)
  return text
}

function checkSize(text: string): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > payloadBytesMax)
    throw new PosthornError('PAYLOAD_TOO_LARGE', { bytes, bytesMax: payloadBytesMax })
}

/** Scans the text instead of walking the parsed value, so that a megabyte of brackets cannot overflow the stack. */
function checkNesting(text: string): void {
  if (text.length <= 2 * payloadNestingMax) return
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (char === quote) i = endOfString(text, i)
    else if (char === openBrace || char === openBracket) {
      if (++depth > payloadNestingMax) throw badPayload(`it is nested more than ${payloadNestingMax} deep`)
    } else if (char === closeBrace || char === closeBracket) depth--
  }
}

function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (char === backslash) i++
    else if (char === quote) return i
  }
  return text.length
}

function badPayload(reason: string, cause?: unknown): PosthornError {
  return new PosthornError('BAD_PAYLOAD', { reason }, { cause })
}

/** The messages of V8 have several lines and quote the text; the first line is enough. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : 'it could not be read'
  return message.split('\n', 1)[0]?.slice(0, 200) ?? message
}

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = [34, 92, 123, 125, 91, 93]
