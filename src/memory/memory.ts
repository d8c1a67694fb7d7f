import { setTimeout as delay } from 'node:timers/promises'
import type { Source } from '../consume/source.ts'
import type { Database } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { Burial } from '../observe/hub-events.ts'
import type { Checkpoint } from '../operations/checkpoints.ts'
import { releaseMemory } from '../operations/claim-memory.ts'
import { readClock } from '../operations/clock.ts'
import { forgetMemory, isInMemory } from '../operations/move-memory.ts'
import { MemoryClock } from './clock.ts'
import { Door, type OpenQueue } from './door.ts'
import type { Entry } from './entry.ts'
import { HeldBack } from './held-back.ts'
import { moveQueue, type OpeningOptions, openQueue } from './opening.ts'
import { Persister } from './persister.ts'
import type { MemoryQueue } from './queue.ts'
import { MemorySource } from './source.ts'
import { SplitSource } from './split-source.ts'
import { Timer } from './timer.ts'

export interface MemoryOptions extends MemoryObserver {
  readonly db: Database
  /** This process, by name and by number. */
  readonly workerId: string
  readonly worker: () => Promise<number>
  readonly newToken: () => number
  readonly leased: (run: LeasedRun, leaseMs: number) => void
  readonly wake: () => void
  readonly goOn: (run: LeasedRun) => void
  readonly take: (runs: readonly LeasedRun[], askedAt: number) => Promise<void>
  /** Nothing more of it may begin here. */
  readonly retire: (subscription: number) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** What memory queues tell, by the names of their subscriptions. */
export interface MemoryObserver {
  /** How long a statement took. */
  persisted(ms: number): void
  /** Another process has the queue, and does not have what was not persisted. */
  lost(name: string, unpersisted: number): void
  /** A start has found these. */
  recovered(name: string, events: number): void
  buried(burial: Burial): void
}

/** What can be seen of a memory queue in the process that has it. */
export interface MemoryView {
  readonly subscription: Subscription
  readonly depth: number
  /** Something is out, or could be. */
  readonly isBusy: boolean
  /** In memory only: what a crash would lose now. */
  readonly unpersisted: number
  /** The last event below which all are settled; null: none was. */
  readonly checkpointId: number | null
  readonly figures: MemoryQueue['figures']
  events(eventsMax: number): readonly SeenDelivery[]
}

export interface SeenDelivery {
  readonly event: StoredEvent
  readonly attempts: number
  readonly failures: number
  readonly lastError: string | null
}

const tickMs = 250
const lastTriesMax = 10
const lastTryMs = 300

/** The memory queues of this process: claimed and loaded at the start, persisted beside the work, given up at the end. */
export class Memory {
  readonly door: Door
  readonly #options: MemoryOptions
  readonly #clock = new MemoryClock()
  readonly #queues = new Map<number, OpenQueue>()
  readonly #heldBack: HeldBack
  readonly #source: MemorySource
  readonly #timer: Timer
  #ticker: NodeJS.Timeout | undefined

  constructor(options: MemoryOptions) {
    const { db, worker, leased, wake, goOn } = options
    this.#options = options
    const queue = (no: number) => this.#queues.get(no)?.queue
    this.#heldBack = new HeldBack({ queue, goOn })
    this.#timer = new Timer({ now: () => this.#clock.now(), fire: wake })
    this.#source = new MemorySource({
      ...{ db, worker, leased, queue, clock: this.#clock },
      persister: (one) => (this.#queues.get(one.subscription.no) as OpenQueue).persister,
      due: (atMs) => this.#timer.at(atMs),
    })
    this.door = new Door({
      ...{ db, clock: this.#clock, queues: this.#queues, heldBack: this.#heldBack },
      lost: (one) => this.#lose(one),
    })
  }

  /** Both sources as one. */
  beside(database: Source): Source {
    return new SplitSource({
      ...{ memory: this.#source, database, take: this.#options.take, trouble: this.#options.trouble },
      isInMemory: (no) => this.#queues.has(no),
      holdsBack: (run) => this.#heldBack.holds(run),
    })
  }

  /** By number, those that are here. */
  get here(): number[] {
    return [...this.#queues.values()]
      .filter(({ queue }) => !queue.isLost)
      .map(({ queue }) => queue.subscription.no)
  }

  get views(): MemoryView[] {
    return [...this.#queues.values()].map(({ queue }) => viewOf(queue))
  }

  /** Undefined: it is not here. */
  get(subscription: number): MemoryView | undefined {
    const open = this.#queues.get(subscription)
    return open && viewOf(open.queue)
  }

  /** Claims and loads those of these that are kept in memory; what others have left there goes to the database. */
  async start(subscriptions: readonly Subscription[]): Promise<void> {
    await this.sync()
    this.#ticker ??= setInterval(() => this.#tick(), tickMs)
    try {
      for (const subscription of subscriptions) {
        if (subscription.storage === 'memory') await this.#open(subscription)
        else await this.#move(subscription)
      }
    } catch (error) {
      // All or none: nobody keeps those that were claimed before.
      await this.#closeAll()
      throw error
    }
    if (this.#queues.size > 0) return
    clearInterval(this.#ticker)
    this.#ticker = undefined
  }

  /** Asks the database for the time: retries are due by it. */
  async sync(): Promise<void> {
    this.#clock.set(await readClock(this.#options.db))
  }

  /** The subscriptions as they are now: some may be gone, or kept elsewhere. */
  async refresh(subscriptions: readonly Subscription[]): Promise<void> {
    const current = new Map(subscriptions.map((one) => [one.no, one]))
    for (const { queue } of this.#queues.values()) {
      const subscription = current.get(queue.subscription.no)
      if (subscription?.storage === 'memory') queue.subscription = subscription
      else await this.#close(queue, subscription === undefined ? 'forget' : 'give up')
    }
  }

  /** Writes all that has happened so far, and records how far the queue has come; undefined: it is not here. */
  async checkpoint(subscription: number): Promise<Checkpoint | undefined> {
    return this.#queues.get(subscription)?.persister.checkpoint('requested')
  }

  /** Resolves when all that has happened so far is written. */
  async persist(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ persister }) => persister.persist()))
  }

  /** Writes what waits, and gives the queues up. */
  async stop(): Promise<void> {
    clearInterval(this.#ticker)
    this.#timer.stop()
    await this.door.settled()
    await this.#closeAll()
  }

  async #closeAll(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ queue }) => this.#close(queue, 'give up')))
  }

  async #open(subscription: Subscription): Promise<void> {
    const { db, persisted, trouble, recovered: tell, newToken, workerId } = this.#options
    if (this.#queues.has(subscription.no)) return
    const opening = this.#opening(subscription, newToken(), workerId)
    const { queue, recovered, exhausted } = await openQueue(subscription, opening)
    const options = { db, trouble, clock: this.#clock, lost: (one: MemoryQueue) => this.#lose(one) }
    const persister = new Persister(queue, { ...options, persisted: (_, ms) => persisted(ms) })
    this.#queues.set(subscription.no, { queue, persister })
    if (recovered > 0) tell(subscription.name, recovered)
    if (queue.nextDueAtMs !== null) this.#timer.at(queue.nextDueAtMs)
    for (const entry of exhausted) await this.#buryLoaded(queue, entry)
  }

  /** It has ended one process too many. */
  async #buryLoaded(queue: MemoryQueue, entry: Entry): Promise<void> {
    const { attempts: attempt, failures, lastError, event } = entry
    const reason = lastError ?? ''
    const burial = { attempt, failures, reason, startedAfterMs: 0, executionMs: 0 }
    if ((await this.#source.bury(queue, entry, burial)) !== 'settled') return
    const { name, onExhausted } = queue.subscription
    const stopsLane = onExhausted === 'block' ? (entry.lane?.key ?? null) : null
    this.#options.buried({ subscription: name, eventId: event.id, type: event.type, reason, stopsLane })
  }

  async #move(subscription: Subscription): Promise<void> {
    const { db, newToken, workerId, recovered } = this.#options
    if (!(await isInMemory(db, subscription.no))) return
    const moved = await moveQueue(subscription, this.#opening(subscription, newToken(), workerId))
    if (moved > 0) recovered(subscription.name, moved)
  }

  #opening({ no }: Subscription, token: number, worker: string): OpeningOptions {
    return {
      db: this.#options.db,
      claim: { subscription: no, token, worker },
      now: () => this.#clock.now(),
      emptied: () => this.#heldBack.look(),
    }
  }

  #tick(): void {
    for (const { persister } of this.#queues.values()) persister.tick()
    for (const { queue } of this.#queues.values())
      if (queue.nextDueAtMs !== null) this.#timer.at(queue.nextDueAtMs)
  }

  async #close(queue: MemoryQueue, how: 'give up' | 'forget'): Promise<void> {
    const { db, trouble, workerId: worker } = this.#options
    const { no: subscription } = queue.subscription
    const { persister } = this.#queues.get(subscription) as OpenQueue
    const claim = { subscription, token: queue.token, worker }
    queue.hold.close()
    try {
      if (how === 'forget') await forgetMemory(db, claim)
      else if (!queue.isLost) await this.#persistAtLast(persister)
      await persister.settled()
      if (how === 'give up') await persister.compact()
      queue.hold.lose()
      await releaseMemory(db, claim)
    } catch (error) {
      trouble(error, 'giving a memory queue up')
    } finally {
      this.#queues.delete(subscription)
      this.#heldBack.look()
    }
  }

  /** The last chance of what is in memory only: the database may be away for a moment. */
  async #persistAtLast(persister: Persister): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await persister.checkpoint('stop')
        return
      } catch (error) {
        if (tries === lastTriesMax) throw error
        await delay(lastTryMs)
      }
    }
  }

  #lose(queue: MemoryQueue): void {
    if (queue.isLost) return
    queue.hold.lose()
    this.#queues.delete(queue.subscription.no)
    this.#options.lost(queue.subscription.name, queue.ledger.unsaved)
    this.#options.retire(queue.subscription.no)
  }
}

function viewOf(queue: MemoryQueue): MemoryView {
  const { subscription, depth, ledger, figures } = queue
  return {
    ...{ subscription, depth, figures, unpersisted: ledger.unsaved },
    isBusy: queue.hasReady || figures.leased > 0,
    checkpointId: ledger.checkpoint === 0 ? null : ledger.checkpoint,
    events: (eventsMax) =>
      ledger.first(eventsMax).map(({ event, attempts, failures, lastError }) => ({
        ...{ event, attempts, failures, lastError },
      })),
  }
}
