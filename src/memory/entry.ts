import type { LeasedDelivery, LeasedRun, MemoryTerms } from '../domain/delivery.ts'
import { type StoredEvent, youngCopy } from '../domain/stored-event.ts'
import type { Adoption } from './adoption.ts'
import type { Fifo } from './fifo.ts'
import type { MemoryQueue } from './memory-queue.ts'

/** A delivery that a memory queue owes. */
export interface Entry {
  readonly event: StoredEvent
  /** Monotonic: when the event was published, by the clock of the database at that time. */
  readonly publishedAt: number
  readonly lane: Lane | null
  attempts: number
  failures: number
  /** By the clock of the database; null: the entry does not wait for a time. */
  dueAtMs: number | null
  lastError: string | null
  state: 'waiting' | 'later' | 'out' | 'settled'
  /** The run that the entry was last leased with: settlements of earlier runs do not count any more. */
  run: MemoryRun | null
  /** Whether the database has the entry. `perhaps`: the answer was lost. */
  stored: 'no' | 'perhaps' | 'yes'
  /** The delivery may have ended a process: it is attempted alone, until it has succeeded. */
  isSuspect: boolean
  /** The statement by which a handler's transaction completes the delivery: it may commit after the attempt has ended. */
  completing: Promise<unknown> | null
  /** The attempt is under way while its queue is moved to the database. */
  adoption: Adoption | null
}

/** An event that comes in, and the key that orders it. */
export interface Arrival {
  readonly event: StoredEvent
  readonly laneKey: string | null
}

/** How an entry stands that is tried again later. */
export type Postponement = Pick<Entry, 'attempts' | 'failures' | 'dueAtMs' | 'lastError'>

/** How an entry stood when it was persisted. */
export type Standing = Readonly<Postponement & Pick<Entry, 'isSuspect'>>

/** The entries of one ordering key, in order. While the head is out, no other run of the lane is. */
export interface Lane {
  readonly key: string
  readonly entries: Fifo<Entry>
  state: 'waiting' | 'later' | 'out'
  /** The database is about to keep the lane. */
  isClosing: boolean
}

/** An entry, leased. */
export class MemoryDelivery implements LeasedDelivery {
  run: LeasedRun
  readonly event: StoredEvent
  readonly attempt: number
  readonly failures: number
  readonly entry: Entry

  constructor(run: MemoryRun, entry: Entry) {
    this.run = run
    this.event = youngCopy(entry.event)
    this.attempt = entry.attempts + 1
    this.failures = entry.failures
    this.entry = entry
  }

  /** The settlement may have to wait until the queue is moved to the database. */
  get settlesAlone(): boolean {
    return this.entry.adoption !== null
  }
}

export class MemoryRun implements LeasedRun {
  readonly id: number
  readonly queue: MemoryQueue
  readonly laneKey: string | null
  readonly suspect: boolean
  readonly leasedUntil: Date
  readonly memory: MemoryTerms
  readonly deliveries: MemoryDelivery[] = []

  constructor(queue: MemoryQueue, id: number, leasedUntil: Date, first: Entry) {
    this.queue = queue
    this.id = id
    this.leasedUntil = leasedUntil
    this.laneKey = first.lane?.key ?? null
    this.suspect = first.isSuspect
    this.memory = queue.terms
  }

  get subscription(): number {
    return this.queue.subscription.no
  }

  get token(): number {
    return this.queue.token
  }

  add(entry: Entry): void {
    entry.state = 'out'
    entry.run = this
    this.deliveries.push(new MemoryDelivery(this, entry))
  }
}

export function isOutWith(entry: Entry, run: LeasedRun): boolean {
  return entry.state === 'out' && entry.run === run
}
