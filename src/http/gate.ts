import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { allows, type KeyHolder, type Scope } from '../domain/api-key.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { RateLimit } from './rate-limit.ts'
import type { Caller } from './route.ts'

/** Checks the Authorization header. */
export interface KeyCheck {
  check(authorization: string | undefined): Promise<KeyHolder | 'missing' | 'wrong' | 'open'>
}

/** Requests per second of a key that has no limit of its own. */
const ratePerSecondDefault = 10_000

/** Checks key, scope and rate of a request before its body is read. */
export class Gate {
  readonly #keys: KeyCheck
  readonly #rateLimit = new RateLimit()

  constructor(keys: KeyCheck) {
    this.#keys = keys
  }

  async enter(request: FastifyRequest, reply: FastifyReply, scope: Scope): Promise<Caller> {
    const { caller, holder } = await this.#identify(request, reply)
    if (holder === undefined) return caller
    this.#limit(holder, reply)
    if (!allows(holder.scopes, scope)) throw new PosthornError('FORBIDDEN', { scope, key: holder.id })
    return caller
  }

  /** Checks again after a call has waited, since its key may have been revoked. The rate counts only once. */
  async recheck(request: FastifyRequest, reply: FastifyReply, scope: Scope): Promise<void> {
    const { holder } = await this.#identify(request, reply)
    if (holder !== undefined && !allows(holder.scopes, scope)) {
      throw new PosthornError('FORBIDDEN', { scope, key: holder.id })
    }
  }

  /** While no API keys exist, there is a caller but no holder. */
  async #identify(
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<{ caller: Caller; holder?: KeyHolder }> {
    const holder = await this.#keys.check(request.headers.authorization)
    const remote = request.socket.remoteAddress ?? ''
    if (holder === 'open') {
      checkLocal(request, remote)
      return { caller: { id: '', name: 'local', remote } }
    }
    if (holder === 'missing' || holder === 'wrong') {
      void reply.header('www-authenticate', 'Bearer')
      throw new PosthornError('UNAUTHORIZED')
    }
    return { caller: { id: holder.id, name: holder.id, remote }, holder }
  }

  #limit({ id, ratePerSecond }: KeyHolder, reply: FastifyReply): void {
    const perSecond = ratePerSecond ?? ratePerSecondDefault
    const { allowed, remaining, resetSeconds } = this.#rateLimit.take(id, perSecond)
    const seconds = Math.max(1, Math.ceil(1 / perSecond))
    void reply.header('ratelimit-policy', `"key";q=${Math.max(1, Math.floor(perSecond))};w=${seconds}`)
    void reply.header('ratelimit', `"key";r=${remaining};t=${resetSeconds}`)
    if (!allowed)
      throw new PosthornError('RATE_LIMITED', { key: id, perSecond, retryAfterSeconds: resetSeconds })
  }
}

/**
 * While no API keys exist, everybody on this machine may do everything. So the request must come from this machine, and not from
 * a web page that somebody here has open. A foreign name that points to this machine shows in the Host header.
 */
function checkLocal({ headers }: FastifyRequest, remote: string): void {
  const { host, origin, 'sec-fetch-site': site } = headers
  if (!isLoopback(remote)) throw foreign('the client', remote)
  if (host === undefined || !isLocalName(hostnameOf(`http://${host}`))) throw foreign('Host', host)
  if (origin !== undefined && !isLocalName(hostnameOf(origin))) throw foreign('Origin', origin)
  if (site === 'cross-site') throw foreign('Sec-Fetch-Site', site)
  const proxied = Object.keys(headers).find((name) => proxyHeader.test(name))
  if (proxied !== undefined) throw foreign(proxied, headers[proxied])
}

/** Headers that proxies add: the request then comes from elsewhere, even if the proxy runs on this machine. */
const proxyHeader =
  /^(forwarded(-.+)?|via|cdn-loop|cf-ray|x-real-ip|x-amzn-trace-id|x-(forwarded|original|envoy)(-.+)?|x-.+-forwarded-for|x-(remote|originating)-(ip|addr)|.*(client|connecting|user|connection)-?ip(v6)?)$/

/** Whether only this machine can reach a server that listens on this name. */
export function isLocalName(name: string | undefined): boolean {
  return name !== undefined && (name === 'localhost' || name.endsWith('.localhost') || isLoopback(name))
}

function isLoopback(address: string): boolean {
  const bare = address.replace(/^::ffff:/, '')
  return bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

function hostnameOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
}

function foreign(header: string, value: unknown): PosthornError {
  return new PosthornError('FOREIGN_REQUEST', { header, value: toDetail(value) })
}
