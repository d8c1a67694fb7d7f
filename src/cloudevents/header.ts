import { isUtf8 } from 'node:buffer'

/** Encodes a value for a `ce-` header as printable ASCII (CloudEvents HTTP binding, 3.1.3.2). */
export function encodeHeaderValue(text: string): string {
  return text.replace(/(?:[^\x21-\x7e]|["%])+/gu, percentEncode)
}

/** Decodes the value of a `ce-` header; null if its percent-encoded bytes are not UTF-8. */
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
 * Node reads the bytes of a header as Latin-1. Senders that forget to encode send Latin-1 or UTF-8; text in Latin-1 is hardly
 * ever valid UTF-8.
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
