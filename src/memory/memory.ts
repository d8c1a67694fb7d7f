import type { Source } from '../consume/source.ts'
import type { Core } from '../core/core.ts'
import { atMost } from '../core/stop-each.ts'
import type { Subscription } from '../domain/subscription.ts'
import { readClock } from '../engine/clock.ts'
import { newToken } from '../engine/lease-tokens.ts'
import type { Checkpoint } from '../queues/checkpoints.ts'
import { releaseMemory } from './claim-memory.ts'
import { HeldBack } from './held-back.ts'
import { moveLeftQueues } from './left-queues.ts'
import { MemoryClock } from './memory-clock.ts'
import { MemoryIntake } from './memory-intake.ts'
import type { MemoryObserver } from './memory-observer.ts'
import type { MemoryQueue } from './memory-queue.ts'
import { MemorySource } from './memory-source.ts'
import { forgetMemory } from './move-memory.ts'
import { moveAway } from './moving.ts'
import { moveQueue, type OpeningOptions, openQueue, type Patience, unlessTaken } from './opening.ts'
import { Persister } from './persister.ts'
import { SplitSource } from './split-source.ts'
import { Timer } from './timer.ts'
import { type MemoryView, viewOf } from './view.ts'

const tickMs = 250
/** How long after its grace period a stop waits for queues that are already being moved or given up. */
const closingMs = 1_000

/** What becomes of a queue that this process keeps no longer: another process loads it, the database keeps it, or it is dropped. */
type Leaving = 'give up' | 'move' | 'forget'

/** The memory queues of this process: claimed and loaded at the start, persisted beside the work, given up at the end. */
export class Memory {
  readonly intake: MemoryIntake
  readonly #core: Core
  readonly #observe: MemoryObserver
  readonly #clock = new MemoryClock()
  readonly #queues = new Map<number, Persister>()
  readonly #heldBack: HeldBack
  readonly #source: MemorySource
  readonly #timer: Timer
  readonly #closing = new Map<number, Promise<void>>()
  /** As they were last read, by number. */
  #current: ReadonlyMap<number, Subscription> = new Map()
  /** Aborted when all queues are given up. */
  #leaving = new AbortController()
  /** Monotonic: until when a stop waits for a database that is away. */
  #stopsBy = Number.NEGATIVE_INFINITY
  #ticker: NodeJS.Timeout | undefined
  #isStarted = false

  constructor(core: Core, observe: MemoryObserver) {
    const { db, signals } = core
    this.#core = core
    this.#observe = observe
    const [queues, clock] = [this.#queues, this.#clock]
    this.#timer = new Timer(clock, () => signals.emit('wakeHandlers'))
    this.#heldBack = new HeldBack({ queues, signals })
    const parts = { queues, clock, heldBack: this.#heldBack }
    this.#source = new MemorySource({ ...core, ...parts, timer: this.#timer })
    this.intake = new MemoryIntake({ db, ...parts, lost: (queue) => this.#lose(queue) })
  }

  /** A source that leases from memory and from the database. */
  beside(database: Source): Source {
    const [memory, queues, heldBack] = [this.#source, this.#queues, this.#heldBack]
    return new SplitSource({ ...this.#core, memory, database, queues, heldBack })
  }

  /** The numbers of the subscriptions whose queues are here. */
  get here(): number[] {
    return [...this.#queues.values()]
      .filter(({ queue }) => !queue.isLost)
      .map(({ queue }) => queue.subscription.no)
  }

  /** The tokens by which this process can lease what is stored of its queues. */
  get tokens(): number[] {
    const now = performance.now()
    return [...this.#queues.values()]
      .filter(({ queue }) => queue.hold.isOurs(now))
      .map(({ queue }) => queue.token)
  }

  get views(): MemoryView[] {
    return [...this.#queues.values()].map(({ queue }) => viewOf(queue))
  }

  /** If a subscription has ended and another one has its name now, the newer of them. */
  #named(name: string): Persister | undefined {
    const named = [...this.#queues.values()].filter(({ queue }) => queue.subscription.name === name)
    return named.sort((a, b) => a.queue.subscription.no - b.queue.subscription.no).at(-1)
  }

  /** Claims and loads the queues that are kept in memory; moves to the database what earlier processes left of the others. */
  async start(subscriptions: readonly Subscription[]): Promise<void> {
    await this.sync()
    this.#isStarted = true
    this.#ticker ??= setInterval(() => this.#tick(), tickMs)
    try {
      for (const subscription of subscriptions) {
        if (subscription.storage !== 'memory') await this.#move(subscription)
        else if (!this.#queues.has(subscription.no)) await this.#open(subscription)
      }
    } catch (error) {
      // All or none: nobody would serve the queues that were claimed before.
      await this.#closeAll()
      throw error
    }
    if (this.#queues.size > 0) return
    clearInterval(this.#ticker)
    this.#ticker = undefined
  }

  /** Asks the database for the time: retries are due by it. */
  async sync(): Promise<void> {
    this.#clock.set(await readClock(this.#core.db))
  }

  /** The subscriptions as they are now: some may have ended, or are to be kept in the database. */
  async refresh(subscriptions: readonly Subscription[]): Promise<void> {
    this.#current = new Map(subscriptions.map((one) => [one.no, one]))
    this.#review()
  }

  #review(): void {
    for (const { queue } of this.#queues.values()) {
      const subscription = this.#current.get(queue.subscription.no)
      if (subscription?.storage === 'memory') queue.subscription = subscription
      else void this.#close(queue, subscription === undefined ? 'forget' : 'move')
    }
  }

  /** Writes all that has happened so far, and records how far the queue has come; undefined: it is not here. */
  async checkpoint(name: string): Promise<Checkpoint | undefined> {
    return this.#named(name)?.checkpoint('requested')
  }

  /** Resolves when all that has happened so far is written. */
  async persist(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((persister) => persister.persist()))
  }

  /** Writes all changes, and gives up the queues. While the database is away, tries until that moment of the monotonic clock. */
  async stop(until: number): Promise<void> {
    this.#isStarted = false
    this.#stopsBy = until
    clearInterval(this.#ticker)
    this.#timer.stop()
    await this.intake.settled()
    await this.#closeAll()
  }

  async #closeAll(): Promise<void> {
    this.#leaving.abort()
    // A queue that is being closed may be opened again meanwhile. A move may wait for a transaction that nobody ends.
    const waitMs = Math.max(this.#stopsBy - performance.now(), 0) + closingMs
    await atMost(waitMs, Promise.all(this.#closing.values()), () => undefined)
    const open = [...this.#queues.values()].filter(({ queue }) => !this.#closing.has(queue.subscription.no))
    await Promise.all(open.map(({ queue }) => this.#close(queue, 'give up')))
    this.#leaving = new AbortController()
  }

  async #open(subscription: Subscription, patience?: Patience): Promise<void> {
    const opened = await openQueue(subscription, this.#opening(subscription.no), patience)
    const { queue, recovered, exhausted } = opened
    const persister = new Persister(queue, {
      ...this.#core,
      clock: this.#clock,
      persisted: (ms) => this.#observe.persisted(ms),
      lost: () => this.#lose(queue),
    })
    this.#queues.set(subscription.no, persister)
    if (recovered > 0) this.#observe.recovered(subscription.name, recovered)
    this.#timer.at(queue.nextDueAtMs)
    for (const entry of exhausted) {
      const burial = await this.#source.buryExhausted(queue, entry)
      if (burial !== undefined) this.#observe.buried(burial)
    }
  }

  async #move(subscription: Subscription): Promise<void> {
    const moved = await moveQueue(subscription, this.#opening(subscription.no))
    if (moved > 0) this.#observe.recovered(subscription.name, moved)
  }

  /** For upkeep: see `moveLeftQueues`. */
  moveLeft(): Promise<boolean> {
    return moveLeftQueues({
      db: this.#core.db,
      recovered: (name, events) => this.#observe.recovered(name, events),
      opening: (no) => this.#opening(no),
    })
  }

  /** Takes up a queue that another process had, if nobody has had it for `vacantMs`. */
  async takeUp(subscription: Subscription, { vacantMs }: { readonly vacantMs: number }): Promise<boolean> {
    const { no } = subscription
    if (!this.#isStarted || this.#queues.has(no) || this.#closing.has(no)) return false
    if (!(await unlessTaken(() => this.#open(subscription, { waitMsMax: 0, vacantMs })))) return false
    this.#ticker ??= setInterval(() => this.#tick(), tickMs)
    return true
  }

  #opening(subscription: number): OpeningOptions {
    const { db, workerId: worker } = this.#core
    return {
      db,
      claim: { subscription, token: newToken(), worker },
      leaving: this.#leaving.signal,
      now: () => this.#clock.now(),
      emptied: () => this.#heldBack.look(),
    }
  }

  #tick(): void {
    for (const persister of this.#queues.values()) {
      persister.tick()
      this.#timer.at(persister.queue.nextDueAtMs)
    }
  }

  /** Closes a queue once, however often that is asked for meanwhile. */
  #close(queue: MemoryQueue, how: Leaving): Promise<void> {
    const { no } = queue.subscription
    const closing = this.#closing.get(no) ?? this.#closeOnce(queue, how).finally(() => this.#closed(no))
    this.#closing.set(no, closing)
    return closing
  }

  /** The storage of the subscription may have been changed meanwhile. */
  #closed(no: number): void {
    this.#closing.delete(no)
    this.#review()
  }

  async #closeOnce(queue: MemoryQueue, how: Leaving): Promise<void> {
    const { db, trouble, workerId: worker, signals } = this.#core
    const { no: subscription } = queue.subscription
    const persister = this.#queues.get(subscription) as Persister
    const claim = { subscription, token: queue.token, worker }
    queue.hold.close()
    this.#heldBack.look()
    try {
      if (how === 'move') await this.#moveAway(queue, persister)
      if (how === 'forget') await forgetMemory(db, claim)
      else if (!queue.isLost) await persister.checkpointAtLast(this.#stopsBy)
      await persister.settled()
      if (how === 'give up') await persister.compact()
      queue.hold.lose()
      await releaseMemory(db, claim)
    } catch (error) {
      trouble(error, 'giving up a memory queue')
      if (queue.ledger.unsaved > 0) this.#observe.dropped(queue.subscription.name, queue.ledger.unsaved)
    } finally {
      if (this.#queues.get(subscription)?.queue === queue) this.#queues.delete(subscription)
      this.#heldBack.look()
      signals.emit('wakeHandlers')
    }
  }

  async #moveAway(queue: MemoryQueue, persister: Persister): Promise<void> {
    const { signals } = this.#core
    const { no } = queue.subscription
    await moveAway(queue, {
      ...this.#core,
      persister,
      leaving: this.#leaving.signal,
      handBack: () => signals.emitAndWait('handBackUnbegun', no),
      outdate: () => this.#heldBack.moved(no),
      lost: () => this.#lose(queue),
      isWanted: () => this.#queues.has(no) && this.#current.get(no)?.storage === 'memory',
      reopen: async () => {
        const isOpen = await unlessTaken(() => this.#open(this.#current.get(no) as Subscription))
        if (!isOpen) signals.emit('queueTaken', no)
      },
    })
  }

  #lose(queue: MemoryQueue): void {
    if (queue.isLost) return
    queue.hold.lose()
    this.#queues.delete(queue.subscription.no)
    this.#observe.lost(queue.subscription.name, queue.ledger.unsaved)
    this.#core.signals.emit('queueTaken', queue.subscription.no)
    this.#heldBack.look()
  }
}
