import type { IncomingHttpHeaders } from 'node:http'
import { isJsonType, isUtf8Charset } from '../cloudevents/content.ts'
import { PosthornError } from '../errors.ts'

/** Bodies are taken as they come: one in another coding, or JSON in another charset, would be taken for what it is not. */
export function refuseCodings(headers: IncomingHttpHeaders): void {
  const { 'content-encoding': encoding, 'content-type': type = '' } = headers
  if (encoding !== undefined && encoding !== 'identity') {
    throw unsupported('Content-Encoding', 'left out', encoding)
  }
  if (isJsonType(type) && !isUtf8Charset(type)) throw unsupported('Content-Type', 'in UTF-8', type)
}

function unsupported(header: string, expected: string, value: string): PosthornError {
  return new PosthornError('UNSUPPORTED_MEDIA_TYPE', { header, expected, value })
}
