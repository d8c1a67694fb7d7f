import { setTimeout as delay } from 'node:timers/promises'
import type { Core } from '../core/core.ts'
import type { Checkpoint } from '../queues/checkpoints.ts'
import { type CheckpointRequest, checkpointMemory } from './checkpoint-memory.ts'
import { compactMemory } from './compact-memory.ts'
import type { Entry } from './entry.ts'
import type { Page } from './ledger.ts'
import type { MemoryClock } from './memory-clock.ts'
import type { MemoryQueue } from './memory-queue.ts'
import { type MemoryState, persistMemory } from './persist-memory.ts'

export interface PersisterOptions extends Pick<Core, 'db' | 'signals' | 'trouble'> {
  readonly clock: MemoryClock
  /** How long a statement took. */
  readonly persisted: (ms: number) => void
  /** Another process has the queue. */
  readonly lost: () => void
}

const pageLimits = { rowsMax: 2_000, charsMax: 8 * 2 ** 20 }
/** How long a change may wait to be written, and how often the queue is kept whether or not anything changed. */
const changedMs = 1_000
const keptMs = 1_500
/** How long a persist at the threshold waits: handlers may settle what came in meanwhile. */
const soonMs = 5
/** How often a checkpoint is recorded, if the queue has moved. */
const checkpointMs = 60_000
const compactRowsMax = 5_000
const compactFrom = 1_000
/** How long the last persist is tried at least while the database is away, and how often. */
const lastTriesMs = 3_000
const lastTryMs = 300

/** The queues in the memory of this process, each with what writes it, by the number of their subscription. */
export type OpenQueues = ReadonlyMap<number, Persister>

/** Writes what has changed in one queue, beside the work: when enough has come in, or some time has passed. */
export class Persister {
  readonly queue: MemoryQueue
  readonly #options: PersisterOptions
  #persisting: Promise<void> | undefined
  #soon: NodeJS.Timeout | undefined
  #compacting: Promise<void> | undefined
  #persistedAt: number
  #checkpointAt: number
  /** The checkpoint that was last recorded. */
  #recorded: number

  constructor(queue: MemoryQueue, options: PersisterOptions) {
    this.queue = queue
    this.#options = options
    this.#persistedAt = performance.now()
    this.#checkpointAt = this.#persistedAt
    this.#recorded = queue.ledger.checkpoint
  }

  /** Events came in. What is settled a moment later is never written. */
  added(): void {
    if (!this.#isDue) return
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      if (this.#isDue) void this.#beside(this.persist())
    }, soonMs)
  }

  get #isDue(): boolean {
    return this.queue.ledger.unsaved >= this.#threshold && this.#persisting === undefined
  }

  /** Called several times a second. */
  tick(): void {
    const now = performance.now()
    const due = this.queue.ledger.isChanged ? changedMs : keptMs
    if (this.#persisting === undefined && now - this.#persistedAt >= due) void this.#beside(this.persist())
    if (now - this.#checkpointAt < checkpointMs) return
    this.#checkpointAt = now
    if (this.queue.ledger.checkpoint !== this.#recorded) void this.#beside(this.checkpoint('interval'))
  }

  /** Resolves when no more than twice the threshold is in memory only: publishers are held up before that grows. */
  async room(): Promise<void> {
    if (this.queue.ledger.unsaved < 2 * this.#threshold || this.queue.isLost) return
    await (this.#persisting ?? this.persist())
    if (this.queue.ledger.unsaved >= 2 * this.#threshold) await this.persist()
  }

  /** Resolves when everything that has happened so far is written. */
  async persist(): Promise<void> {
    // The persist before tells of its own error.
    while (this.#persisting !== undefined) await this.#persisting.catch(() => undefined)
    this.#persisting = this.#persistAll().finally(() => {
      this.#persisting = undefined
    })
    await this.#persisting
    // Enough may have come in meanwhile for another persist.
    this.added()
  }

  /** Persists, and records how far the queue has come. */
  async checkpoint(reason: CheckpointRequest['reason']): Promise<Checkpoint | undefined> {
    await this.persist()
    const { subscription, token, ledger } = this.queue
    this.#recorded = ledger.checkpoint
    return checkpointMemory(this.#options.db, { subscription: subscription.no, token, reason })
  }

  /** The last chance of events that are in memory only: while the database is away, tries until that moment or a bit longer. */
  async checkpointAtLast(until: number): Promise<void> {
    const deadline = Math.max(until, performance.now() + lastTriesMs)
    for (;;) {
      try {
        await this.checkpoint('stop')
        return
      } catch (error) {
        if (performance.now() >= deadline) throw error
        await delay(lastTryMs)
      }
    }
  }

  /** Removes what the checkpoint covers. */
  async compact(): Promise<void> {
    const request = { subscription: this.queue.subscription.no, rowsMax: compactRowsMax }
    for (let removed = compactRowsMax; removed >= compactRowsMax; ) {
      removed = await compactMemory(this.#options.db, request)
      this.queue.ledger.compacted(removed)
    }
  }

  /** Resolves when nothing is being written. */
  async settled(): Promise<void> {
    clearTimeout(this.#soon)
    await this.#persisting?.catch(() => undefined)
    await this.#compacting
  }

  get #threshold(): number {
    return this.queue.subscription.queue.persistenceThreshold as number
  }

  async #persistAll(): Promise<void> {
    const { ledger } = this.queue
    // What comes in meanwhile is left to the next persist, or this one might never end.
    let left = ledger.unsaved
    for (let isMore = true; isMore && !this.queue.isLost && !this.queue.isMoving; ) {
      const page = ledger.take(pageLimits)
      await this.#persistPage(page)
      left -= page.added.length
      isMore = page.isMore || (left > 0 && page.added.length > 0)
    }
    if (ledger.covered < compactFrom) return
    this.#compacting ??= this.#beside(this.compact()).finally(() => {
      this.#compacting = undefined
    })
  }

  async #persistPage(page: Page): Promise<void> {
    const { db, signals, clock, persisted, lost } = this.#options
    const { subscription, token, ledger, depth, hold } = this.queue
    const askedAt = performance.now()
    const { checkpoint, settled, tally } = page
    try {
      const nowMs = await persistMemory(db, {
        subscription: subscription.no,
        token,
        checkpoint,
        depth,
        settled,
        tally,
        added: page.added.map((entry) => this.#stateOf(entry)),
        changed: page.changed.map((entry) => this.#stateOf(entry)),
        isCleared: ledger.isCleared,
      })
      if (nowMs === undefined) {
        lost()
        return
      }
      ledger.saved(page)
      clock.set(nowMs)
      const wasOurs = hold.isOurs(performance.now())
      hold.kept(askedAt)
      // The queue is surely ours again: its attempts can begin.
      if (!wasOurs) signals.emit('wakeHandlers')
    } catch (error) {
      ledger.failed(page)
      throw error
    } finally {
      this.#persistedAt = performance.now()
    }
    persisted(performance.now() - askedAt)
  }

  #stateOf(entry: Entry): MemoryState {
    const { event, attempts, failures, dueAtMs, lastError } = entry
    const dueAfterMs = dueAtMs === null ? null : Math.max(1, dueAtMs - this.#options.clock.now())
    return { event, laneKey: entry.lane?.key ?? null, attempts, failures, dueAfterMs, lastError }
  }

  async #beside(work: Promise<unknown>): Promise<void> {
    const { trouble } = this.#options
    await work.catch((error: unknown) => trouble(error, 'persisting a memory queue'))
  }
}
