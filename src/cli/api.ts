import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { badOption } from '../domain/bad-value.ts'
import { PosthornError } from '../errors.ts'
import { apiRoutes } from '../http/routes/index.ts'
import { createServer } from '../http/server.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { Logger } from '../observe/log.ts'
import { observeRequests } from '../observe/request-metrics.ts'
import type { Posthorn } from '../posthorn.ts'
import { readManifest } from './command.ts'

interface ApiOptions {
  readonly hub: Posthorn
  readonly keys: KeyRing
  readonly log: Logger
  readonly address: { readonly host: string; readonly port: number }
}

export interface Api {
  readonly port: number
  /** Takes no more connections, answers long polls, and waits for requests under way. */
  stop(): Promise<void>
}

const drainMsMax = 30_000

export async function startApi({ hub, keys, log, address }: ApiOptions): Promise<Api> {
  let isDraining = false
  const server = createServer({
    observe: observeRequests(hub.metrics),
    routes: apiRoutes(hub, { isDraining: () => isDraining, ...readManifest() }),
    keys,
    log,
  })
  const http = server.app.server
  try {
    await server.listen({ host: address.host, port: address.port })
  } catch (error) {
    await server.close()
    throw refusedAddress(error, address)
  }
  const drain = async () => {
    let closed = Promise.resolve()
    const draining = new Promise<void>((tell) => {
      closed = server.close(tell)
    })
    // Long polls end after the server has begun to close: an earlier answer would say keep-alive, and then the connection is cut.
    await Promise.race([draining, closed])
    await hub.pull.stop()
    await closed
  }
  const stop = async () => {
    isDraining = true
    const late = new AbortController()
    const waited = delay(drainMsMax, 'late', { signal: late.signal }).catch(() => 'in time')
    const drained = drain().catch((error: unknown) =>
      log.error({ err: error }, 'Stopping the HTTP server failed'),
    )
    if ((await Promise.race([drained, waited])) === 'late') {
      log.warn(`Requests were cut after ${drainMsMax / 1000} s`)
      http.closeAllConnections()
    }
    late.abort()
  }
  return { port: (http.address() as AddressInfo).port, stop }
}

/** Each of these codes means a setting that does not fit this machine. */
function refusedAddress(error: unknown, { host, port }: { host: string; port: number }): unknown {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new PosthornError('PORT_IN_USE', { port, host, portNext: port < 65_535 ? port + 1 : port - 1 })
    case 'EACCES':
      return badOption('PORT', 'a port that this user may listen on', port)
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EINVAL':
      return badOption('HOST', 'an address of this machine', host)
    default:
      return error
  }
}
