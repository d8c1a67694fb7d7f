import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isJsonType, isUtf8Charset, mediaTypeOf } from '../cloudevents/content.ts'
import { GrowingBytes } from '../domain/growing-bytes.ts'
import { PosthornError } from '../errors.ts'
import type { Route } from './route.ts'

/** A payload of a megabyte, and room for the fields around it. */
const bytesMaxDefault = 1_048_576 + 65_536

/** The longest body of this content type that the route accepts. */
export function bytesMaxOf({ body }: Route, contentType = ''): number {
  const content = body?.kind === 'bytes' ? body.contents[mediaTypeOf(contentType)] : undefined
  return content?.bytesMax ?? body?.bytesMax ?? bytesMaxDefault
}

/** Bodies are stored unchanged, so a compressed body, or JSON that is not UTF-8, would be misread. */
export function refuseCodings(headers: IncomingHttpHeaders): void {
  const { 'content-encoding': encoding, 'content-type': type = '' } = headers
  if (encoding !== undefined && encoding !== 'identity') {
    throw unsupported('Content-Encoding', 'left out', encoding)
  }
  if (isJsonType(type) && !isUtf8Charset(type)) throw unsupported('Content-Type', 'in UTF-8', type)
}

export function unsupported(header: string, expected: string, value: string | undefined): PosthornError {
  return new PosthornError('UNSUPPORTED_MEDIA_TYPE', { header, expected, value })
}

/**
 * Reads the body as bytes. A body that is too long, or that `hold` has no room for, is refused at once: by its Content-Length,
 * or as soon as the limit is passed. The rest of it is neither stored nor waited for.
 */
export function readBytes(
  body: IncomingMessage,
  { bytesMax, begin, hold }: { bytesMax: number; begin: () => void; hold: (bytes: number) => void },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => new PosthornError('BODY_TOO_LARGE', { bytesMax })
    if (Number(body.headers['content-length']) > bytesMax) return reject(tooLarge())
    begin()
    const held = new GrowingBytes()
    const take = (chunk: Buffer) => {
      try {
        if (held.length + chunk.length > bytesMax) throw tooLarge()
        hold(chunk.length)
        held.add(chunk)
      } catch (error) {
        body.off('data', take)
        reject(error)
      }
    }
    body.on('data', take)
    body.once('end', () => resolve(held.bytes))
    body.once('error', (error) =>
      reject(new PosthornError('BAD_REQUEST', { reason: 'its body was cut off' }, { cause: error })),
    )
  })
}
