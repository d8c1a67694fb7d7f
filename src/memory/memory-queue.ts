import type { Want } from '../consume/source.ts'
import type { MemoryTerms } from '../domain/delivery.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import type { Subscription } from '../domain/subscription.ts'
import {
  type Arrival,
  type Entry,
  isOutWith,
  type Lane,
  type MemoryDelivery,
  MemoryRun,
  type Postponement,
  type Standing,
} from './entry.ts'
import { Fifo } from './fifo.ts'
import { Hold } from './hold.ts'
import { type Ended, Ledger, type Tried } from './ledger.ts'
import { headOf, Waiting } from './waiting.ts'

const runMax = 200
/** Payloads that one queue may hold, in characters. */
const charsMax = 512 * 2 ** 20

export interface MemoryQueueOptions {
  readonly subscription: Subscription
  readonly token: number
  /** All events up to here are settled. */
  readonly checkpoint: number
  /** Monotonic: when the statement was sent that claimed it. */
  readonly claimedAt: number
  /** By the clock of the database. */
  readonly now: () => number
  /** A lane has nothing left in memory. */
  readonly emptied: () => void
}

/**
 * The deliveries that one subscription is owed, in the memory of this process: what waits, what is out, and what waits
 * for its time. A lane has at most one run out. What has to be written of it is in its ledger.
 */
export class MemoryQueue {
  /** Replaced when its options have changed. */
  subscription: Subscription
  readonly token: number
  readonly ledger: Ledger
  readonly hold: Hold
  /** What the runner keeps to with the runs of this queue. */
  readonly terms: MemoryTerms = {
    settlesInMemory: true,
    mayBegin: (now) => this.hold.isOurs(now),
    holdsBack: () => false,
  }
  /** The whole queue is written and is being moved to the durable tables: nothing more is written from here. */
  isMoving = false
  readonly #now: () => number
  readonly #emptied: () => void
  readonly #lanes = new Map<string, Lane>()
  readonly #waiting = new Waiting()
  #runs = 0
  #out = 0
  #retries = 0
  #chars = 0

  constructor({ subscription, token, checkpoint, claimedAt, now, emptied }: MemoryQueueOptions) {
    this.subscription = subscription
    this.token = token
    this.hold = new Hold(claimedAt)
    this.ledger = new Ledger(checkpoint)
    this.#now = now
    this.#emptied = emptied
  }

  /** Unsettled: waiting, out, or waiting for their time. */
  get depth(): number {
    return this.ledger.unsettled
  }

  /** For the metrics. */
  get figures() {
    const { delayed } = this.#waiting
    const oldest = this.ledger.oldest
    return {
      waiting: this.depth - this.#out,
      leased: this.#out,
      delayed,
      retries: this.#retries,
      // The clock of the database may have been set back since, and MemoryClock never goes back.
      oldestSeconds: oldest === undefined ? 0 : (performance.now() - oldest.publishedAt) / 1000,
    }
  }

  get isLost(): boolean {
    return this.hold.isLost
  }

  /** Whether this many more events, with this many characters of payload, would be too many. */
  isFull(events: number, chars: number): boolean {
    const { maxQueueDepth } = this.subscription.queue
    return this.depth + events > (maxQueueDepth as number) || this.#chars + chars > charsMax
  }

  get isPressed(): boolean {
    return this.depth >= (this.subscription.queue.highWatermark as number)
  }

  /** Something of this lane is unsettled. */
  hasLane(key: string): boolean {
    return this.#lanes.has(key)
  }

  add({ event, laneKey }: Arrival): void {
    this.ledger.add(this.#enter(event, laneKey, fresh))
  }

  /** An entry that was persisted before. */
  restore({ event, laneKey }: Arrival, standing: Standing): Entry {
    const entry = this.#enter(event, laneKey, standing)
    this.ledger.restore(entry)
    return entry
  }

  /** At most what is wanted, oldest first. */
  lease(want: Want, leaseMs: number): MemoryRun[] {
    this.#waiting.promote(this.#now())
    const runs: MemoryRun[] = []
    if (!this.hold.isOurs(performance.now())) return runs
    let left = want.eventsMax
    while (left > 0 && runs.length < Math.max(want.runsMax, 1)) {
      const next = this.#waiting.next()
      if (next === undefined || (headOf(next).isSuspect && (!want.suspects || runs.length > 0))) break
      const run = new MemoryRun(this, ++this.#runs, new Date(this.#now() + leaseMs), headOf(next))
      if ('entries' in next) this.#fillWithLane(run, next, Math.min(left, want.laneMax))
      else this.#fill(run, left)
      left -= run.deliveries.length
      this.#out += run.deliveries.length
      runs.push(run)
      if (run.suspect) break
    }
    return runs
  }

  /** When the next entry is due that waits for a time; null: none waits. */
  get nextDueAtMs(): number | null {
    return this.#waiting.nextDueAtMs
  }

  get hasReady(): boolean {
    this.#waiting.promote(this.#now())
    return this.#waiting.next() !== undefined
  }

  /** The delivery is settled for good, and forgotten. */
  finish(entry: Entry, ended: Ended): void {
    if (entry.state === 'settled') return
    this.#drop(entry)
    this.ledger.finished(entry, ended)
  }

  /** The delivery is tried again after a while. */
  postpone({ entry, run }: MemoryDelivery, change: Postponement, tried: Tried): void {
    if (!isOutWith(entry, run)) return
    if (change.failures > 0 && entry.failures === 0) this.#retries++
    Object.assign(entry, change)
    this.ledger.tried(entry, tried)
    this.#putBack(entry, run as MemoryRun)
  }

  /** Takes the delivery back as if it had not been leased. */
  release({ entry, run }: MemoryDelivery): void {
    if (!isOutWith(entry, run)) return
    // The mark that it has begun is taken back: nobody is to be charged.
    if (run.suspect) this.ledger.changed(entry)
    this.#putBack(entry, run as MemoryRun)
  }

  /** Takes back what is left of a run. */
  releaseRun(run: MemoryRun): void {
    // Backwards: of a lane the last to come back is its head, and then the lane waits.
    for (const delivery of [...run.deliveries].reverse()) this.release(delivery)
  }

  /** What is leased, begun or not. */
  get out(): MemoryDelivery[] {
    const entries = this.ledger.first(Number.POSITIVE_INFINITY).filter(({ state }) => state === 'out')
    return entries.flatMap(
      (entry) => entry.run?.deliveries.findLast((delivery) => delivery.entry === entry) ?? [],
    )
  }

  /** Nothing more enters the lane: the database is about to keep it. */
  closeLane(key: string): void {
    const lane = this.#lanes.get(key)
    if (lane !== undefined) lane.isClosing = true
  }

  isClosing(key: string): boolean {
    return this.#lanes.get(key)?.isClosing ?? false
  }

  /** The database keeps the lane from now on. */
  giveUpLane(key: string): void {
    const lane = this.#lanes.get(key)
    if (lane === undefined) return
    for (const entry of [...lane.entries]) {
      this.#drop(entry)
      this.ledger.moved(entry)
    }
  }

  #enter(event: StoredEvent, laneKey: string | null, standing: Standing): Entry {
    const lane = laneKey === null ? null : this.#laneOf(laneKey)
    const ageMs = standing === fresh ? 0 : Math.max(0, this.#now() - event.createdAt.getTime())
    const entry: Entry = {
      event,
      publishedAt: performance.now() - ageMs,
      lane,
      ...standing,
      state: 'waiting',
      run: null,
      stored: 'no',
      completing: null,
      adoption: null,
    }
    this.#chars += event.payloadText.length
    if (standing.failures > 0) this.#retries++
    if (lane !== null) {
      lane.entries.push(entry)
      if (lane.entries.size === 1) this.#waiting.add(lane)
    } else if (standing === fresh) this.#waiting.addFresh(entry)
    else this.#waiting.add(entry)
    return entry
  }

  #laneOf(key: string): Lane {
    let lane = this.#lanes.get(key)
    if (lane === undefined) {
      lane = { key, entries: new Fifo(), state: 'out', isClosing: false }
      this.#lanes.set(key, lane)
    }
    return lane
  }

  #fillWithLane(run: MemoryRun, lane: Lane, entriesMax: number): void {
    this.#waiting.take()
    lane.state = 'out'
    for (const entry of lane.entries) {
      if (run.deliveries.length > 0 && (run.suspect || entry.isSuspect || entry.attempts > 0)) break
      run.add(entry)
      if (run.deliveries.length >= entriesMax) break
    }
  }

  /** An entry that was tried before has a run of its own. */
  #fill(run: MemoryRun, entriesMax: number): void {
    if (!this.#waiting.isFresh) {
      run.add(this.#waiting.next() as Entry)
      this.#waiting.take()
      return
    }
    for (const entry of this.#waiting.takeFresh(Math.min(entriesMax, runMax))) run.add(entry)
  }

  #putBack(entry: Entry, run: MemoryRun): void {
    const { lane } = entry
    this.#undo(entry)
    if (lane === null) {
      this.#waiting.add(entry)
      return
    }
    // The rest of the lane's run has not begun, and goes back with its head.
    if (lane.entries.peek() !== entry) return
    for (const other of run.deliveries) if (isOutWith(other.entry, run)) this.#undo(other.entry)
    this.#waiting.add(lane)
  }

  #undo(entry: Entry): void {
    if (entry.state === 'out') this.#out--
    entry.state = 'waiting'
  }

  /** The entry leaves the queue; its lane goes on with the next entry, once its run is done. */
  #drop(entry: Entry): void {
    const { lane, state } = entry
    if (state === 'out') this.#out--
    entry.state = 'settled'
    this.#chars -= entry.event.payloadText.length
    if (entry.failures > 0) this.#retries--
    if (lane === null) return
    if (lane.entries.peek() === entry) lane.entries.shift()
    else lane.entries.filter((one) => one !== entry)
    const head = lane.entries.peek()
    if (head === undefined) {
      this.#lanes.delete(lane.key)
      this.#emptied()
    } else if (state === 'out' && head.state !== 'out') this.#waiting.add(lane)
  }
}

const fresh: Standing = { attempts: 0, failures: 0, dueAtMs: null, lastError: null, isSuspect: false }
