import type { Attempt, Handler } from '../consume/attempt.ts'
import { badOption } from '../domain/bad-value.ts'
import type { Catalogue, EventFor, EventPattern, EventType } from '../domain/catalogue.ts'
import { checkOptions as checkOptionNames, type NamesOf } from '../domain/known-names.ts'
import { checkPattern, patternsFor } from '../domain/pattern.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { integer } from '../domain/subscription.ts'
import type { Transport } from './transport.ts'
import { consoleLog, silentLog, type WorkerLog } from './worker-log.ts'
import type { WorkerConfig, WorkerLoop } from './worker-loop.ts'

export interface WorkerOptions {
  /** The name of this worker in logs and in the list of workers. Default: host and process, else a random name. */
  readonly workerId?: string
  /** Only events with any of these tags. */
  readonly tags?: string | readonly string[]
  /** The name of a pull subscription. Default `work`: the work queue, which is asked by tags. */
  readonly subscription?: string
  /** How many attempts run at once. Default 10. */
  readonly concurrency?: number
  /** The worker renews its leases. If its process dies, others take over after this time. Default 60. */
  readonly leaseSeconds?: number
  /** How long a request waits for work, at most a third of the lease. Default 20. */
  readonly waitSeconds?: number
  /** An attempt that takes longer fails. Default: no limit. */
  readonly timeoutMs?: number
  /** False: lease only events that can begin at once. Use this for subscriptions with a limit over all workers. Default true. */
  readonly prefetch?: boolean
  /** Default: warnings and errors on the console. */
  readonly log?: WorkerLog | false
}

/** One handler for every event, or one for each type or pattern: the most specific pattern wins. */
export type WorkerHandler<C extends Catalogue = Catalogue> =
  | Handler<WorkerEvent<C>>
  | { readonly [Pattern in EventPattern<C>]?: Handler<EventFor<C, Pattern>> }

type WorkerEvent<C extends Catalogue> =
  string extends EventType<C> ? StoredEvent : EventFor<C, EventType<C>> | StoredEvent<null>

export interface StopOptions {
  /** How long handlers may take to end before they are aborted and handed back. Default 30,000. */
  readonly graceMs?: number
}

/** Leases from the server, makes attempts and settles: the same loop as for handlers in a hub, over HTTP. */
export class PullWorker {
  readonly #transport: Transport
  readonly #config: WorkerConfig
  #running: Promise<WorkerLoop> | undefined
  #stopping: Promise<void> | undefined
  #onStopped: (() => void)[] = []

  constructor(transport: Transport, options: WorkerOptions, handler: WorkerHandler) {
    this.#transport = transport
    this.#config = checkOptions(options, handler)
  }

  get workerId(): string {
    return this.#config.workerId
  }

  /** Begins to work. A second call does nothing. */
  async start(): Promise<void> {
    await this.#stopping
    // Loaded only when used: a client that only publishes runs where the loop could not.
    this.#running ??= import('./worker-loop.ts').then(({ startLoop }) =>
      startLoop(this.#transport, this.#config),
    )
    await this.#running
  }

  /** Ends the attempts under way, and hands back the rest uncounted. A second call does nothing. */
  async stop(options: StopOptions = {}): Promise<void> {
    checkOptionNames(options, { graceMs: true }, 'stop')
    const { graceMs = 30_000 } = options
    integer('graceMs', graceMs, 0, 86_400_000)
    if (this.#running === undefined) return
    this.#stopping ??= this.#stop(this.#running, graceMs)
    return this.#stopping
  }

  /**
   * Works until the signal is aborted or `stop()` is called; resolves when everything is settled or handed back. Rejects
   * if the server refuses the worker: the key, the subscription or the tags are wrong.
   */
  async run(signal?: AbortSignal, options: StopOptions = {}): Promise<void> {
    if (signal?.aborted) return
    await this.start()
    const stopped = new Promise<void>((resolve) => this.#onStopped.push(resolve))
    const onAbort = () => void this.stop(options)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted) onAbort()
    const loop = await this.#running
    const refusal = await Promise.race([stopped, loop?.refused])
    if (refusal !== undefined) await this.stop(options)
    signal?.removeEventListener('abort', onAbort)
    if (refusal !== undefined) throw refusal
  }

  async #stop(running: Promise<WorkerLoop>, graceMs: number): Promise<void> {
    const loop = await running
    await loop.stop(graceMs)
    this.#running = undefined
    this.#stopping = undefined
    for (const tell of this.#onStopped.splice(0)) tell()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

const optionNames: NamesOf<WorkerOptions> = {
  workerId: true,
  tags: true,
  subscription: true,
  concurrency: true,
  leaseSeconds: true,
  waitSeconds: true,
  timeoutMs: true,
  prefetch: true,
  log: true,
}

function checkOptions(options: WorkerOptions, handler: WorkerHandler): WorkerConfig {
  checkOptionNames(options, optionNames, 'a worker')
  const { workerId = ownName(), log } = options
  if (typeof workerId !== 'string' || workerId === '') throw badOption('workerId', 'text', workerId)
  // Without a subscription or tags the worker would take all work.
  if (options.tags === undefined && options.subscription === undefined) {
    throw badOption('tags', 'given, unless there is a subscription', undefined)
  }
  const { subscription = 'work' } = options
  if (typeof subscription !== 'string' || subscription === '') {
    throw badOption('subscription', 'the name of one', subscription)
  }
  return {
    workerId,
    subscription,
    tags: checkTags(options.tags),
    concurrency: integer('concurrency', options.concurrency ?? 10, 1, 10_000),
    leaseSeconds: integer('leaseSeconds', options.leaseSeconds ?? 60, 1, 43_200),
    waitSeconds: integer('waitSeconds', options.waitSeconds ?? 20, 0, 60),
    timeoutMs:
      options.timeoutMs === undefined ? null : integer('timeoutMs', options.timeoutMs, 1, 86_400_000),
    prefetch: checkPrefetch(options.prefetch),
    log: log === false ? silentLog : (log ?? consoleLog),
    handler: typeof handler === 'function' ? (handler as Handler) : byType(handler),
  }
}

function checkTags(tags: WorkerOptions['tags']): WorkerOptions['tags'] {
  const texts = typeof tags === 'string' ? [tags] : (tags ?? [])
  const isFine = Array.isArray(texts) && texts.every((tag) => typeof tag === 'string' && tag.trim() !== '')
  if (!isFine || (tags !== undefined && texts.length === 0)) throw badOption('tags', 'some tags', tags)
  return tags
}

function checkPrefetch(prefetch: unknown = true): boolean {
  if (typeof prefetch !== 'boolean') throw badOption('prefetch', 'true or false', prefetch)
  return prefetch
}

/** Host and process, if the runtime tells them. */
function ownName(): string {
  const { getBuiltinModule, pid } = globalThis.process ?? {}
  const host = getBuiltinModule?.('node:os')?.hostname()
  return host === undefined ? crypto.randomUUID() : `${host}:${pid}`
}

/** While a newer version of this worker is rolled out, an older one may get types that it has no handler for. */
const unknownTypeMs = 60_000

function byType(handlers: object): Handler {
  const known = new Map<string, unknown>(Object.entries(handlers ?? {}))
  for (const [pattern, handler] of known) {
    checkPattern(pattern)
    if (typeof handler !== 'function') throw badOption(`handler of ${pattern}`, 'a function', handler)
  }
  if (known.size === 0) throw badOption('handler', 'a function, or functions by type', handlers)
  return (event: StoredEvent, attempt: Attempt) => {
    const pattern = patternsFor(event.type ?? '').find((candidate) => known.has(candidate))
    if (pattern === undefined) return attempt.snooze(unknownTypeMs)
    return (known.get(pattern) as Handler)(event, attempt)
  }
}
