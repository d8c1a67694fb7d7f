import type { IncomingHttpHeaders } from 'node:http'
import { isJsonType, isUtf8Charset } from '../cloudevents/content.ts'
import { PosthornError } from '../errors.ts'

/** Bodies are stored unchanged, so a compressed body, or JSON that is not UTF-8, would be misread. */
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
