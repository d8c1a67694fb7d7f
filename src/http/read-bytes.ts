import type { IncomingMessage } from 'node:http'
import { mediaTypeOf } from '../cloudevents/content.ts'
import { GrowingBytes } from '../domain/growing-bytes.ts'
import { PosthornError } from '../errors.ts'
import type { Route } from './route.ts'

/** A payload of a megabyte, and as much again as the fields around it can sensibly take. */
const bytesMaxDefault = 1_048_576 + 65_536

/** How long a body of this content type may be. */
export function bytesMaxOf({ body }: Route, contentType = ''): number {
  const content = body?.kind === 'bytes' ? body.contents[mediaTypeOf(contentType)] : undefined
  return content?.bytesMax ?? body?.bytesMax ?? bytesMaxDefault
}

/**
 * The body as it came. One that is too long is refused by its Content-Length, or else as soon as it is, and so is one
 * that `hold` has no room for: the rest is neither kept nor waited for.
 */
export function readBytes(
  body: IncomingMessage,
  { bytesMax, begin, hold }: { bytesMax: number; begin: () => void; hold: (bytes: number) => void },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = new PosthornError('BODY_TOO_LARGE', { bytesMax })
    if (Number(body.headers['content-length']) > bytesMax) return reject(tooLarge)
    begin()
    const held = new GrowingBytes()
    const take = (chunk: Buffer) => {
      try {
        if (held.length + chunk.length > bytesMax) throw tooLarge
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
      reject(new PosthornError('BAD_REQUEST', { reason: 'it was cut off' }, { cause: error })),
    )
  })
}
