import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { AddressPolicy } from './address-policy.ts'
import type { Resolver } from './resolver.ts'
import { blockedMessage, SendError, toDialError } from './send-failure.ts'

export interface ConnectorOptions {
  readonly policy: AddressPolicy
  readonly resolver: Resolver
  /** How long TCP and TLS may take together. */
  readonly connectMs?: number
  /** Certificates to trust instead of the usual ones. */
  readonly ca?: string
}

/** How far a connection has come, and how long each step took. */
export interface Progress {
  phase: 'dns' | 'connect' | 'tls' | 'open'
  dnsMs?: number
  connectMs?: number
  tlsMs?: number
}

interface Limits {
  /** On the monotonic clock. */
  readonly endsAt: number
  readonly signal: AbortSignal
}

const addressesMax = 4
const keepAliveDelayMs = 15_000

/**
 * Opens connections, and only to allowed addresses. Names are resolved here, and the resolved address itself is dialled, so that
 * no second lookup can give another answer.
 */
export class Connector {
  readonly #options: ConnectorOptions

  constructor(options: ConnectorOptions) {
    this.#options = options
  }

  /** Throws SendError. Aborting the signal aborts the connection, too. */
  async connect(url: URL, progress: Progress, signal: AbortSignal): Promise<Socket> {
    const { resolver, connectMs = 5000 } = this.#options
    const addresses = await timed(progress, 'dnsMs', () => resolver.resolve(url.hostname))
    signal.throwIfAborted()
    const limits = { endsAt: performance.now() + connectMs, signal }
    progress.phase = 'connect'
    const socket = await timed(progress, 'connectMs', () => this.#dialAny(addresses, url, limits))
    if (url.protocol === 'http:') return socket
    progress.phase = 'tls'
    return await timed(progress, 'tlsMs', () => this.#secure(socket, url, limits))
  }

  /** Tries addresses one after the other, each with its share of the time that is left. */
  async #dialAny(addresses: readonly string[], url: URL, { endsAt, signal }: Limits): Promise<Socket> {
    const tried = alternating(addresses).slice(0, addressesMax)
    let failure: unknown
    for (const [index, address] of tried.entries()) {
      const now = performance.now()
      try {
        return await this.#dial(address, url, {
          endsAt: now + (endsAt - now) / (tried.length - index),
          signal,
        })
      } catch (error) {
        signal.throwIfAborted()
        failure ??= error
      }
    }
    throw toDialError(failure, 'connect')
  }

  async #dial(address: string, url: URL, limits: Limits): Promise<Socket> {
    const socket = connect({
      host: address,
      port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveDelayMs,
    })
    await ready(socket, 'connect', limits)
    // Check where the socket really leads before writing anything, even a handshake.
    if (this.#options.policy.judge(socket.remoteAddress ?? '') === 'allowed') return socket
    socket.destroy()
    throw new SendError('blocked', blockedMessage)
  }

  async #secure(socket: Socket, url: URL, limits: Limits): Promise<TLSSocket> {
    const { ca } = this.#options
    const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
    const secured = connectTls({
      socket,
      host,
      servername: isIP(host) === 0 ? host : '',
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
      ...(ca === undefined ? {} : { ca }),
    })
    try {
      await ready(secured, 'secureConnect', limits)
      return secured
    } catch (error) {
      socket.destroy()
      throw toDialError(error, 'tls')
    }
  }
}

/** Waits for the event, a failure, the end of the time or the signal. */
function ready(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  { endsAt, signal }: Limits,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const withinMs = Math.max(Math.ceil(endsAt - performance.now()), 1)
    const tooLate = new SendError('connect_timeout', `No connection within ${withinMs} ms`)
    const timer = setTimeout(() => socket.destroy(tooLate), withinMs)
    const giveUp = () => socket.destroy(signal.reason)
    const settle = (act: () => void) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
      act()
    }
    // This listener stays: a socket that fails while nobody listens would end the process.
    socket.on('error', (error) => settle(() => reject(error)))
    socket.once('close', () => settle(() => reject(new SendError('reset', 'The connection was closed'))))
    socket.once(event, () => settle(resolve))
    signal.addEventListener('abort', giveUp)
    if (signal.aborted) giveUp()
  })
}

/** Alternates IPv4 and IPv6: in a network without one of them, the second try succeeds. */
function alternating(addresses: readonly string[]): string[] {
  const v4 = addresses.filter((address) => isIP(address) === 4)
  const v6 = addresses.filter((address) => isIP(address) === 6)
  return Array.from({ length: addresses.length }, (_, i) => [v4[i], v6[i]])
    .flat()
    .filter((address) => address !== undefined)
}

async function timed<T>(
  progress: Progress,
  step: 'dnsMs' | 'connectMs' | 'tlsMs',
  act: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now()
  try {
    return await act()
  } finally {
    progress[step] = performance.now() - startedAt
  }
}
