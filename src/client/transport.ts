import { badOption } from '../domain/bad-value.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { integer } from '../domain/subscription.ts'
import { badAnswer, PosthornHttpError, refusal, unreachable } from './http-error.ts'
import { pageOf } from './translate.ts'

export interface ClientOptions {
  /** Where the server is, such as `http://localhost:8080`. */
  readonly url: string
  readonly apiKey?: string | undefined
  /** Used instead of the global fetch. */
  readonly fetch?: typeof fetch
  /** How long an answer may take. A long poll may take its wait in addition. Default 30,000. */
  readonly timeoutMs?: number
  /** How often the client repeats a call that is safe to repeat. Default 3. */
  readonly retries?: number
}

const clientOptions: NamesOf<ClientOptions> = {
  url: true,
  apiKey: true,
  fetch: true,
  timeoutMs: true,
  retries: true,
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: URLSearchParams
  /** JSON. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  /** True: the call is safe to repeat. */
  readonly repeatable: boolean
  readonly signal?: AbortSignal | undefined
  /** The signal ends the call only until the answer begins: events that the server has leased by then must be read. */
  readonly abortable?: 'until it is answered'
  /** How long the server may wait before it answers. */
  readonly waitMs?: number
  /** Instead of the client's own limit, and shorter than that. */
  readonly timeoutMs?: number
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Sends requests by fetch, and repeats them where that is safe. */
export class Transport {
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #fetch: typeof fetch
  readonly #timeoutMs: number
  readonly #retries: number

  constructor(options: ClientOptions) {
    checkOptions(options, clientOptions, 'PosthornClient')
    const { url, apiKey, fetch: given, timeoutMs = 30_000, retries = 3 } = options
    this.#url = checkUrl(url)
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${checkKey(apiKey)}` }
    // Called as a function and not as a method: browsers insist on it.
    this.#fetch = given ?? ((...request) => fetch(...request))
    this.#timeoutMs = integer('timeoutMs', timeoutMs, 1, 86_400_000)
    this.#retries = integer('retries', retries, 0, 100)
  }

  async send(call: Call): Promise<Answer> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.#sendOnce(call)
      } catch (error) {
        const waitMs = tries < this.#retries && call.repeatable ? waitAfter(error, tries) : undefined
        if (waitMs === undefined) throw error
        await pause(waitMs, call.signal)
      }
    }
  }

  async #sendOnce(call: Call): Promise<Answer> {
    const { method, path, query, body, headers, signal } = call
    const url = `${this.#url}${path}${query === undefined || query.size === 0 ? '' : `?${query}`}`
    signal?.throwIfAborted()
    const abort = new AbortController()
    const onAbort = () => abort.abort(signal?.reason)
    signal?.addEventListener('abort', onAbort)
    const timeoutMs = Math.min(this.#timeoutMs, call.timeoutMs ?? this.#timeoutMs) + (call.waitMs ?? 0)
    const timer = setTimeout(() => abort.abort(new Error(`it took more than ${timeoutMs} ms`)), timeoutMs)
    try {
      const send = this.#fetch
      const response = await send(url, {
        method,
        headers: { ...this.#headers, ...(body === undefined ? {} : jsonHeaders), ...headers },
        ...(body === undefined ? {} : { body }),
        signal: abort.signal,
        // After a redirect a POST would become a GET, and its answer might look like a success.
        redirect: 'manual',
      })
      if (call.abortable === 'until it is answered') signal?.removeEventListener('abort', onAbort)
      const { status } = response
      const text = await response.text()
      if (response.ok) return { status, headers: response.headers, text }
      throw refusal(status, response.headers, text)
    } catch (error) {
      if (error instanceof PosthornHttpError) throw error
      if (abort.signal.aborted && signal?.aborted) throw signal.reason
      throw unreachable(this.#url, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }
}

const pageMax = 1000

/** All items of a list that comes in pages, by the name of the member that holds them. */
export async function readAll<Item>(
  transport: Transport,
  path: string,
  name: string,
  signal?: AbortSignal,
): Promise<Item[]> {
  const all: Item[] = []
  const query = new URLSearchParams({ limit: String(pageMax) })
  for (;;) {
    const answer = await transport.send({ method: 'GET', path, query, repeatable: true, signal })
    const { items, nextCursor } = read(answer, pageOf<Item>(name))
    all.push(...items)
    if (nextCursor === null) return all
    query.set('cursor', nextCursor)
  }
}

/** The parsed answer. Throws BAD_ANSWER if it does not come from Posthorn. */
export function read<T>({ status, text }: Answer, reader: (text: string) => T): T {
  try {
    return reader(text)
  } catch (error) {
    throw badAnswer(status, error)
  }
}

/** How long to wait before the next try; undefined: another try would not help, or would come too late. */
export function waitAfter(error: unknown, tries: number, random = Math.random()): number | undefined {
  if (!(error instanceof PosthornHttpError) || !passing.has(error.status)) return undefined
  const { retryAfterMs } = error
  if (retryAfterMs !== null && retryAfterMs > retryAfterMsMax) return undefined
  const backoffMs = Math.min(backoffMsMin * 2 ** tries, backoffMsMax) * (0.5 + random)
  return Math.max(backoffMs, (retryAfterMs ?? 0) * (1 + random / 10))
}

/** The status 0 means that there was no answer. */
const passing = new Set([0, 429, 502, 503, 504])
const backoffMsMin = 200
const backoffMsMax = 10_000
/** If the server asks for a longer wait than this, the caller decides. */
const retryAfterMsMax = 60_000
const jsonHeaders = { 'content-type': 'application/json' }

export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** The key is not repeated in the error: it is a secret, and often has a line break at its end. */
function checkKey(key: unknown): string {
  if (typeof key === 'string' && /^[!-~]+$/.test(key)) return key
  throw badOption('apiKey', 'letters, digits and signs without spaces', 'something else')
}

function checkUrl(url: unknown): string {
  if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw badOption('url', 'an http or https URL', url)
  }
  const { username, password, search, hash } = new URL(url)
  if (username === '' && password === '' && search === '' && hash === '') return url.replace(/\/+$/, '')
  throw badOption('url', 'without a name, password, query or fragment', 'one with')
}
