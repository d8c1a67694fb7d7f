import { isUtf8 } from 'node:buffer'

/** The value of a `ce-` header as section 3.1.3.2 of the CloudEvents HTTP binding writes it: printable ASCII. */
export function encodeHeaderValue(text: string): string {
  return text.replace(/(?:[^\x21-\x7e]|["%])+/gu, percentEncode)
}

/** The text that a `ce-` header stands for, or null if it holds percent-encoded bytes that are not UTF-8. */
export function decodeHeaderValue(value: string): string | null {
  const unquoted = unquote(fromLatin1(value))
  let valid = true
  const text = unquoted.replace(/(?:%[0-9a-fA-F]{2})+/g, (escapes) => {
    const bytes = Buffer.from(escapes.replaceAll('%', ''), 'hex')
    valid &&= isUtf8(bytes)
    return bytes.toString()
  })
  return valid ? text : null
}

function percentEncode(text: string): string {
  return Buffer.from(text).toString('hex').toUpperCase().replace(/../g, '%$&')
}

/**
 * Node reads a header's bytes as Latin-1. Senders that forget to encode send either that or plain UTF-8,
 * which hardly ever makes sense as the other.
 */
function fromLatin1(value: string): string {
  if (!/[\x80-\xff]/.test(value) || /[^\0-\xff]/.test(value)) return value
  const bytes = Buffer.from(value, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : value
}

/** Older senders put a value with spaces in double quotes. */
function unquote(value: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/.exec(value)?.[1]
  return quoted === undefined ? value : quoted.replace(/\\(.)/g, '$1')
}
