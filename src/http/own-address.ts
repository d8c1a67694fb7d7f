import type { Socket } from 'node:net'
import { badField } from './schema-issue.ts'

/** The request that brings a webhook URL: it shows the names and the address under which this server can be reached. */
interface ArrivedRequest {
  readonly headers: { readonly host?: string | undefined }
  readonly socket: Pick<Socket, 'localAddress' | 'localPort'>
}

/** Refuses a webhook URL that leads back to this server: each delivery would be published as the next event, without end. */
export function refuseOwnAddress(url: string | undefined, { headers, socket }: ArrivedRequest): void {
  if (url === undefined || !URL.canParse(url)) return
  const target = new URL(url)
  if (isNamedAs(target, headers.host) || leadsTo(target, socket)) {
    throw badField('url', 'the address of another server', url)
  }
}

/** Compares with the Host that the caller used. A Host without a port may belong to a proxy, for http or for https. */
function isNamedAs(target: URL, host: string | undefined): boolean {
  if (host === undefined || !URL.canParse(`http://${host}`)) return false
  const own = new URL(`http://${host}`)
  if (own.hostname !== target.hostname) return false
  return own.port === '' ? target.port === '' : own.port === portOf(target)
}

/** The names that every machine has for itself. */
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
