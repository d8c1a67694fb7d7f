import type { Handler } from '../consume/attempt.ts'
import { defineRegistration, type HandlerOptions, type Registration } from '../consume/registration.ts'
import type { Runner } from '../consume/runner.ts'
import { Share } from '../consume/share.ts'
import type { Source } from '../consume/source.ts'
import type { Core } from '../core/core.ts'
import { portionsOf } from '../core/portions.ts'
import { Refresher } from '../core/refresher.ts'
import { badOption } from '../domain/bad-value.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { Memory } from '../memory/memory.ts'
import { traced } from '../observe/tracing.ts'
import { checkpoint } from '../queues/checkpoints.ts'
import { recordRecoveries } from '../queues/recoveries.ts'
import type { Served } from '../subscriptions/served.ts'
import { listSubscriptions, upsertSubscription } from '../subscriptions/subscriptions.ts'
import type { Push } from '../webhooks/send/push.ts'

/** Bounds how long a start or a stop takes: upkeep records the other queues. */
const recordedMax = 500
/** A process that had a queue in its memory may restart: for this long no other process takes the queue. */
const vacantMsMin = 30_000

export interface ServedSubscriptionsNeeds {
  readonly served: Served
  /** Leases from the database. */
  readonly source: Source
  readonly runner: Runner
  readonly push: Push
  readonly memory: Memory
}

/** The subscriptions that this process serves: those it has handlers for, and the webhooks if it sends them. */
export class ServedSubscriptions {
  readonly #core: Pick<Core, 'db' | 'log' | 'workerId'>
  readonly #needs: ServedSubscriptionsNeeds
  readonly #refresher: Refresher
  readonly #registrations = new Map<string, Registration>()
  /** Subscriptions that have ended, or whose memory queue another process has: this process begins none of their deliveries. */
  readonly #givenUp = new Set<number>()
  /** Subscriptions whose memory queue another process has taken: they may come back. */
  readonly #taken = new Set<number>()
  readonly #registrationOf = new Map<number, Registration>()
  #all: readonly Subscription[] = []
  #usesMemory = false
  /** Some queue has a limit, here or elsewhere. */
  isAnyLimited = false

  constructor(core: Core, needs: ServedSubscriptionsNeeds) {
    const { signals, trouble } = core
    this.#core = core
    this.#needs = needs
    this.#refresher = new Refresher({ read: () => this.refresh(), trouble })
    signals.on('queueTaken', (no) => {
      this.#taken.add(no)
      this.#giveUp(no)
    })
    signals.on('subscriptionsChanged', () => this.refreshSoon())
    signals.on('reconnected', () => this.refreshSoon())
  }

  /** The numbers of the subscriptions that have a handler here. */
  get handled(): number[] {
    return this.subscriptions.map(({ no }) => no)
  }

  get isEmpty(): boolean {
    return this.#registrations.size === 0 && !this.#needs.push.isSending
  }

  register(types: string | readonly string[], options: HandlerOptions, handler: Handler): void {
    const registration = defineRegistration(types, options, handler)
    const { name } = registration.definition
    if (this.#registrations.has(name)) throw badOption('name', 'unused', name)
    this.#registrations.set(name, registration)
  }

  /** The subscriptions that have a handler here, as they were last read. */
  get subscriptions(): Subscription[] {
    return this.#needs.served.all().filter(({ no, via }) => via === 'handler' && !this.#givenUp.has(no))
  }

  /** The subscription has ended, or another process has it now. */
  #giveUp(no: number): void {
    this.#givenUp.add(no)
    this.#needs.runner.retire(no)
  }

  /**
   * Serves subscriptions that have a handler here and that no other process has: a queue that another process had taken and
   * that the database keeps by now, or a memory queue that no process has any more.
   */
  async #takeUp(subscriptions: readonly Subscription[]): Promise<void> {
    const { served, runner, memory } = this.#needs
    for (const subscription of subscriptions) {
      const { no, storage } = subscription
      if (!this.#registrationOf.has(no)) continue
      const isTaken = this.#taken.has(no)
      if (storage === 'database' && !isTaken) continue
      if (storage === 'memory') {
        this.#useMemory()
        if (!(await memory.takeUp(subscription, { vacantMs: isTaken ? 0 : vacantMsMin }))) continue
      }
      this.#taken.delete(no)
      this.#givenUp.delete(no)
      served.set(subscription)
      runner.resume(await this.#shareOf(subscription))
    }
  }

  /** Claims and loads the memory queues of subscriptions that have a handler here. */
  async openMemoryQueues(): Promise<void> {
    const { subscriptions } = this
    if (subscriptions.some(({ storage }) => storage === 'memory')) this.#useMemory()
    await this.#needs.memory.start(subscriptions)
  }

  /** From now on the runner leases from memory as well. A process that never wants a memory queue knows only the database. */
  #useMemory(): void {
    if (this.#usesMemory) return
    this.#usesMemory = true
    const { runner, memory, source } = this.#needs
    runner.use(memory.beside(source))
  }

  /** Creates or changes the subscriptions as their handlers define them. */
  async subscribe(): Promise<void> {
    for (const registration of this.#registrations.values()) await this.#subscribe(registration)
  }

  /** Reads the subscriptions again. Another process may have started with other options: those of the last start count here, too. */
  async refresh(): Promise<void> {
    const { served, runner, push, memory } = this.#needs
    const { db } = this.#core
    // Before the list is read: a handler whose subscription is made meanwhile is not on it.
    const handled = this.handled
    const subscriptions = await listSubscriptions(db)
    this.#all = subscriptions
    this.isAnyLimited = subscriptions.some(hasLimitedQueue)
    for (const subscription of subscriptions) {
      const { no, via } = subscription
      const isSent = via === 'webhook' && push.isSending
      if ((!isSent && !served.has(no)) || this.#givenUp.has(no)) continue
      served.set(subscription)
      if (!isSent) runner.refresh(subscription)
    }
    const present = new Set(subscriptions.map(({ no }) => no))
    // The list leaves out subscriptions that have ended.
    for (const no of handled) if (!present.has(no)) this.#giveUp(no)
    await memory.refresh(subscriptions)
    await push.refresh(subscriptions)
    await this.#takeUp(subscriptions)
  }

  refreshSoon(): void {
    this.#refresher.soon()
  }

  /** Resolves when no refresh is under way, and none will be. */
  stop(): Promise<void> {
    return this.#refresher.stop()
  }

  /** Records what this start found unfinished. The record is not essential: a failure is only logged. */
  async recordRecoveries(): Promise<void> {
    const { db, log, workerId: worker } = this.#core
    try {
      for (const queues of this.#recorded) {
        for (const found of await recordRecoveries(db, { queues, worker })) {
          const { queue, eventsRecovered, checkpointId } = found
          log.info({ queue, eventsRecovered, checkpointId }, 'Queue had unfinished work at start')
        }
      }
    } catch (error) {
      log.error({ err: error }, 'Recording unfinished work of queues failed')
    }
  }

  /** Records how far the queues have come. */
  async recordCheckpoints(): Promise<void> {
    for (const queues of this.#recorded) await checkpoint(this.#core.db, { queues, reason: 'stop' })
  }

  /** The queues that this process serves, and those that are pulled from anywhere, in portions. */
  get #recorded(): number[][] {
    const isServed = (no: number) => this.#needs.served.has(no) && !this.#givenUp.has(no)
    const queues = this.#all.filter(({ no, via }) => via === 'pull' || isServed(no))
    const numbers = queues.slice(0, recordedMax).map(({ no }) => no)
    return portionsOf(numbers, { itemsMax: 50 })
  }

  async #subscribe(registration: Registration): Promise<void> {
    const { definition } = registration
    const { served, runner } = this.#needs
    const { db, log } = this.#core
    const { subscription, before } = await upsertSubscription(db, definition)
    if (before !== undefined && !sameDefinition(before, subscription)) {
      log.warn({ subscription: definition.name, before, after: subscription }, 'Subscription options changed')
    }
    served.set(subscription)
    this.#registrationOf.set(subscription.no, registration)
    runner.add(await this.#shareOf(subscription))
  }

  async #shareOf(subscription: Subscription): Promise<Share> {
    const { handler, concurrency } = this.#registrationOf.get(subscription.no) as Registration
    return new Share(subscription, await traced(handler), concurrency)
  }
}

function hasLimitedQueue({ storage, queue }: Subscription): boolean {
  return storage === 'database' && (queue.maxQueueDepth !== null || queue.highWatermark !== null)
}

function sameDefinition(a: Subscription, b: Subscription): boolean {
  const state = { status: 0, ramp: 0 }
  return JSON.stringify({ ...a, ...state }) === JSON.stringify({ ...b, ...state })
}
