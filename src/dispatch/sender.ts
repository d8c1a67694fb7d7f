import type { Dispatcher } from 'undici'
import type { AddressPolicy } from './address-policy.ts'
import type { Connection } from './connection.ts'
import { ConnectionPool } from './connection-pool.ts'
import { Connector } from './connector.ts'
import { type Cancellation, Deadline } from './deadline.ts'
import { type Answer, Exchange } from './exchange.ts'
import { SendError, toSendError } from './failure.ts'
import { type Result, readRetryAfter } from './outcome.ts'
import { Resolver, type ResolverOptions } from './resolver.ts'
import { parseTargetUrl } from './target-url.ts'

export interface SenderOptions {
  readonly policy: AddressPolicy
  /** For one subscriber and endpoint. */
  readonly connectionsMax?: number
  /** How long TCP and TLS may take together. */
  readonly connectMs?: number
  readonly dns?: Omit<ResolverOptions, 'policy'>
  /** Certificates that are trusted instead of the usual ones. */
  readonly ca?: string
}

export interface SendRequest {
  /** The subscriber's id: connections are never shared between subscribers. */
  readonly poolKey: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Over everything: names, connecting, sending, the answer. */
  readonly timeoutMs: number
  readonly signal?: Cancellation
}

export interface Timings {
  readonly dnsMs?: number
  readonly connectMs?: number
  readonly tlsMs?: number
  readonly firstByteMs?: number
  readonly totalMs: number
}

export interface Sent {
  readonly result: Result
  /** Its first 16 KB, and how many bytes were read, at most 64 KB. */
  readonly response: null | {
    readonly headers: Record<string, string>
    readonly body: Buffer
    readonly bytes: number
  }
  readonly timings: Timings
}

const urlsMax = 10_000

/** They say how the message is framed, which is not the caller's to say. */
const framingHeaders =
  /^(host|connection|keep-alive|upgrade|te|trailer|transfer-encoding|content-length|expect|accept-encoding|proxy-.*)$/i

/** Posts to endpoints that nobody vouches for. Redirects are answers like any other: nothing follows them. */
export class Sender {
  readonly #policy: AddressPolicy
  readonly #resolver: Resolver
  readonly #connector: Connector
  readonly #connectionsMax: number
  readonly #pools = new Map<string, ConnectionPool>()
  readonly #underWay = new Set<Deadline>()
  /** Those that may be sent to. */
  readonly #urls = new Map<string, URL>()
  #isClosed = false

  constructor({ policy, connectionsMax = 50, dns, ...options }: SenderOptions) {
    this.#policy = policy
    this.#resolver = new Resolver({ ...dns, policy })
    this.#connector = new Connector({ ...options, policy, resolver: this.#resolver })
    this.#connectionsMax = connectionsMax
  }

  /** Never throws: whatever happens is a result. */
  async send(request: SendRequest): Promise<Sent> {
    const startedAt = performance.now()
    const deadline = new Deadline(request.timeoutMs, request.signal)
    const steps: Steps = {}
    this.#underWay.add(deadline)
    try {
      if (this.#isClosed) deadline.cancel('The sender was closed')
      const answer = await this.#post(request, deadline, steps)
      return { ...toSent(answer), timings: { ...steps, totalMs: performance.now() - startedAt } }
    } catch (error) {
      const { errorClass, message } = toSendError(error)
      const timings = { ...steps, totalMs: performance.now() - startedAt }
      return { result: { kind: 'failed', errorClass, message }, response: null, timings }
    } finally {
      this.#underWay.delete(deadline)
      deadline.clear()
    }
  }

  /** What is under way fails as `ours`. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const deadline of this.#underWay) deadline.cancel('The sender was closed')
    this.#resolver.close()
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.all(pools.map((pool) => pool.destroy()))
  }

  async #post(request: SendRequest, deadline: Deadline, steps: Steps): Promise<Answer> {
    if (deadline.failure !== null) throw deadline.failure
    const url = this.#parse(request.url)
    const pool = this.#poolFor(request.poolKey, url)
    const connection = pool.take() ?? (await pool.wait(deadline).catch(toBusy))
    try {
      return await exchange(connection, toOptions(request, url), deadline, steps)
    } finally {
      pool.giveBack(connection)
    }
  }

  /** Stored URLs are judged again, since what is allowed may have changed since; but not for each request. */
  #parse(text: string): URL {
    const known = this.#urls.get(text)
    if (known !== undefined) return known
    try {
      const url = parseTargetUrl(text, this.#policy)
      if (this.#urls.size >= urlsMax) this.#urls.clear()
      this.#urls.set(text, url)
      return url
    } catch (error) {
      throw new SendError('blocked', toSendError(error).message, { cause: error })
    }
  }

  #poolFor(poolKey: string, url: URL): ConnectionPool {
    const key = `${url.origin} ${poolKey}`
    const pool =
      this.#pools.get(key) ??
      new ConnectionPool({
        url,
        connector: this.#connector,
        connectionsMax: this.#connectionsMax,
        onEmpty: () => this.#pools.delete(key),
      })
    this.#pools.set(key, pool)
    return pool
  }
}

type Steps = { -readonly [Step in keyof Omit<Timings, 'totalMs'>]: number }

/**
 * A connection that was kept may be closed by the peer just as it is used. If not a byte came back, it is tried once
 * more at once: the connection opens itself anew.
 */
async function exchange(
  connection: Connection,
  options: Dispatcher.DispatchOptions,
  deadline: Deadline,
  steps: Steps,
): Promise<Answer> {
  const attempt = new Exchange(connection, deadline)
  try {
    return await attempt.run(options)
  } catch (error) {
    const isStale = connection.isReused && attempt.firstByteMs === null
    if (!isStale || toSendError(error).errorClass !== 'reset') throw error
    return await exchange(connection, options, deadline, steps)
  } finally {
    const { phase, ...opening } = connection.progress
    const { firstByteMs } = attempt
    Object.assign(steps, opening, firstByteMs === null ? {} : { firstByteMs })
  }
}

function toOptions({ headers, body }: SendRequest, url: URL): Dispatcher.DispatchOptions {
  const own: string[] = ['accept-encoding', 'identity']
  for (const name in headers) if (!isFraming(name)) own.push(name, headers[name] as string)
  return { method: 'POST', path: url.pathname + url.search, headers: own, body }
}

const judged = new Map<string, boolean>()

/** Few names come again and again. */
function isFraming(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const isOne = framingHeaders.test(name)
  if (judged.size < 10_000) judged.set(name, isOne)
  return isOne
}

function toSent({ status, headers, body, bytes }: Answer): Pick<Sent, 'result' | 'response'> {
  const nowMs = performance.timeOrigin + performance.now()
  const retryAfterMs = readRetryAfter(headers['retry-after'] ?? null, headers.date ?? null, nowMs)
  return { result: { kind: 'answered', status, retryAfterMs }, response: { headers, body, bytes } }
}

function toBusy(error: unknown): never {
  const isTimeout = error instanceof SendError && error.errorClass === 'timeout'
  throw isTimeout ? new SendError('ours', 'All connections to the endpoint were busy') : error
}
