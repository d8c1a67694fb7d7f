import type { Socket } from 'node:net'
import { PosthornError } from '../errors.ts'

/** The request by which a url is given: it came in by our door, and says what that is called. */
export interface ArrivedRequest {
  readonly headers: { readonly host?: string | undefined }
  readonly socket: Pick<Socket, 'localAddress' | 'localPort'>
}

/** A webhook to our own door would come in as the next event, and so on. Throws BAD_FIELD. */
export function refuseOwnDoor(url: string | undefined, { headers, socket }: ArrivedRequest): void {
  if (url === undefined || !URL.canParse(url)) return
  const target = new URL(url)
  if (isCalled(target, headers.host) || leadsTo(target, socket)) {
    throw new PosthornError('BAD_FIELD', { field: 'url', expected: 'somewhere else than here', value: url })
  }
}

/** By the name that the caller has for us. Without a port a proxy may have had it, for http or for https. */
function isCalled(target: URL, host: string | undefined): boolean {
  if (host === undefined || !URL.canParse(`http://${host}`)) return false
  const own = new URL(`http://${host}`)
  if (own.hostname !== target.hostname) return false
  return own.port === '' ? target.port === '' : own.port === portOf(target)
}

/** This machine by one of the names that every machine has for itself, and the port that we listen on. */
const thisMachine =
  /^(127(\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:(7f[\da-f]{2}:[\da-f]+|0:0)\]|(.+\.)?localhost\.?)$/

function leadsTo(target: URL, { localAddress, localPort }: ArrivedRequest['socket']): boolean {
  if (portOf(target) !== String(localPort)) return false
  const address = target.hostname.replace(/^\[|\]$/g, '')
  return thisMachine.test(target.hostname) || address === localAddress?.replace('::ffff:', '')
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === 'https:' ? '443' : '80')
}
