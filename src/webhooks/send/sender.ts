import type { Dispatcher } from 'undici'
import type { AddressPolicy } from './address-policy.ts'
import type { Connection } from './connection.ts'
import { ConnectionPool } from './connection-pool.ts'
import { Connector, type ConnectorOptions, type Progress } from './connector.ts'
import { type Cancellation, Deadline } from './deadline.ts'
import { Resolver, type ResolverOptions } from './resolver.ts'
import { type Answer, RoundTrip } from './round-trip.ts'
import { SendError, toSendError } from './send-failure.ts'
import { parseTargetUrl } from './target-url.ts'
import { type Result, readRetryAfter } from './webhook-outcome.ts'

export interface SenderOptions extends Omit<ConnectorOptions, 'resolver'> {
  /** Per subscriber and endpoint. */
  readonly connectionsMax?: number
  readonly dns?: Omit<ResolverOptions, 'policy'>
}

export interface SendRequest {
  /** The subscriber's id: connections are never shared between subscribers. */
  readonly poolKey: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** For everything: resolving, connecting, sending and the response. */
  readonly timeoutMs: number
  readonly signal?: Cancellation
}

export interface Timings extends Readonly<Omit<Progress, 'phase'>> {
  readonly firstByteMs?: number
  readonly totalMs: number
}

export interface Sent {
  readonly result: Result
  /** With the first 16 KB of the body, and the number of bytes that were read, at most 64 KB. */
  readonly response: null | Pick<Answer, 'headers' | 'body' | 'bytes' | 'ending'>
  readonly timings: Timings
}

const targetsMax = 10_000

/** These headers frame the message, so a caller may not set them. */
const framingHeaders =
  /^(host|connection|keep-alive|upgrade|te|trailer|transfer-encoding|content-length|expect|accept-encoding|proxy-.*)$/i

/** Posts to endpoints that may be hostile. A redirect is a response like any other: it is not followed. */
export class Sender {
  readonly #policy: AddressPolicy
  readonly #resolver: Resolver
  readonly #connector: Connector
  readonly #connectionsMax: number
  readonly #pools = new Map<string, ConnectionPool>()
  readonly #underWay = new Set<Deadline>()
  readonly #targets = new Map<string, Target>()
  #isClosed = false

  constructor({ policy, connectionsMax = 50, dns, ...options }: SenderOptions) {
    this.#policy = policy
    this.#resolver = new Resolver({ ...dns, policy })
    this.#connector = new Connector({ ...options, policy, resolver: this.#resolver })
    this.#connectionsMax = connectionsMax
  }

  /** Never throws: every failure is a result. */
  async send(request: SendRequest): Promise<Sent> {
    const startedAt = performance.now()
    const deadline = new Deadline(request.timeoutMs, request.signal)
    this.#underWay.add(deadline)
    let pool: ConnectionPool | undefined
    let connection: Connection | undefined
    let trip: RoundTrip | undefined
    try {
      if (this.#isClosed) deadline.cancel('The sender was closed')
      if (deadline.failure !== null) throw deadline.failure
      const target = this.#targetOf(request.url)
      pool = this.#poolFor(request.poolKey, target)
      connection = pool.take() ?? (await pool.wait(deadline).catch(toBusy))
      const options = toOptions(request, target)
      trip = new RoundTrip(connection, deadline)
      const answer = await trip.run(options).catch((error: unknown) => {
        if (!isStale(error, connection as Connection, trip as RoundTrip)) throw error
        trip = new RoundTrip(connection as Connection, deadline)
        return trip.run(options)
      })
      return toSent(answer, timingsOf(startedAt, connection, trip))
    } catch (error) {
      const { errorClass, message } = toSendError(error)
      const timings = timingsOf(startedAt, connection, trip)
      return { result: { kind: 'failed', errorClass, message }, response: null, timings }
    } finally {
      if (connection !== undefined) pool?.giveBack(connection)
      this.#underWay.delete(deadline)
      deadline.clear()
    }
  }

  /** Requests under way fail as `ours`. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const deadline of this.#underWay) deadline.cancel('The sender was closed')
    this.#resolver.close()
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.all(pools.map((pool) => pool.destroy()))
  }

  /** Stored URLs are checked again, since the allowed networks may have changed; but not for each request. */
  #targetOf(text: string): Target {
    const known = this.#targets.get(text)
    if (known !== undefined) return known
    try {
      const url = parseTargetUrl(text, this.#policy)
      const target = { url, origin: url.origin, path: url.pathname + url.search }
      if (this.#targets.size >= targetsMax) this.#targets.clear()
      this.#targets.set(text, target)
      return target
    } catch (error) {
      throw new SendError('blocked', toSendError(error).message, { cause: error })
    }
  }

  #poolFor(poolKey: string, { url, origin }: Target): ConnectionPool {
    const key = `${origin} ${poolKey}`
    const known = this.#pools.get(key)
    if (known !== undefined) return known
    const pool = new ConnectionPool({
      url,
      connector: this.#connector,
      connectionsMax: this.#connectionsMax,
      onEmpty: () => this.#pools.delete(key),
    })
    this.#pools.set(key, pool)
    return pool
  }
}

/** The parts of a checked URL. */
interface Target {
  readonly url: URL
  readonly origin: string
  readonly path: string
}

/**
 * A peer may close a kept connection just as it is used again. If not a byte came back, the request is sent once more: the
 * connection opens anew, and then counts as new.
 */
function isStale(error: unknown, connection: Connection, { firstByteMs }: RoundTrip): boolean {
  return connection.isReused && firstByteMs === null && toSendError(error).errorClass === 'reset'
}

function timingsOf(startedAt: number, connection?: Connection, trip?: RoundTrip): Timings {
  const totalMs = performance.now() - startedAt
  if (connection === undefined || trip === undefined) return { totalMs }
  const { phase: _, ...steps } = connection.progress
  const { firstByteMs } = trip
  return firstByteMs === null ? { ...steps, totalMs } : { ...steps, firstByteMs, totalMs }
}

function toOptions({ headers, body }: SendRequest, { path }: Target): Dispatcher.DispatchOptions {
  const own: string[] = ['accept-encoding', 'identity']
  for (const name in headers) if (!isFraming(name)) own.push(name, headers[name] as string)
  return { method: 'POST', path, headers: own, body }
}

const judged = new Map<string, boolean>()

/** The same few names come again and again. */
function isFraming(name: string): boolean {
  const known = judged.get(name)
  if (known !== undefined) return known
  const isOne = framingHeaders.test(name)
  if (judged.size < 10_000) judged.set(name, isOne)
  return isOne
}

function toSent({ status, headers, body, bytes, ending }: Answer, timings: Timings): Sent {
  const asked = headers['retry-after']
  const retryAfterMs =
    asked === undefined
      ? null
      : readRetryAfter(asked, headers.date ?? null, performance.timeOrigin + performance.now())
  const response = { headers, body, bytes, ending }
  return { result: { kind: 'answered', status, retryAfterMs }, response, timings }
}

function toBusy(error: unknown): never {
  const isTimeout = error instanceof SendError && error.errorClass === 'timeout'
  throw isTimeout ? new SendError('ours', 'All connections to the endpoint were busy') : error
}
