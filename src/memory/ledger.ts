import type { Entry } from './entry.ts'
import { Fifo } from './fifo.ts'
import type { MemoryTally } from './persist-memory.ts'

/** How a delivery ended: completed, or otherwise, which is recorded elsewhere. */
export type Ended =
  | { readonly as: 'completed'; readonly executionMs: number | null }
  | { readonly as: 'other' }

/** An attempt that did not settle its delivery: it failed, or wants to be made again. */
export interface Tried {
  readonly executionMs: number
  readonly isFailure: boolean
}

/** What one statement writes. */
export interface Page {
  readonly checkpoint: number
  readonly added: readonly Entry[]
  readonly changed: readonly Entry[]
  readonly settled: readonly number[]
  readonly tally: MemoryTally
  /** Not all that was tried or settled fitted. */
  readonly isMore: boolean
}

export interface PageLimits {
  readonly rowsMax: number
  readonly charsMax: number
}

const settledMax = 10_000
type Counting = { -readonly [Key in keyof MemoryTally]: MemoryTally[Key] }

/**
 * What there is to write of a queue: which entries are in memory only, which were tried or settled since they were stored,
 * and how far all are settled. Costs the same however deep the queue is.
 */
export class Ledger {
  /** In the order of their ids; settled ones in between are left out now and then. */
  readonly #order = new Fifo<Entry>()
  #settledInside = 0
  #checkpoint: number
  #latest: number
  #unsettled = 0
  /** In memory only, in order, among them some that have been settled. */
  readonly #unsaved = new Fifo<Entry>()
  #unsavedCount = 0
  readonly #changed = new Set<Entry>()
  #settled: number[] = []
  /** Stored rows that the checkpoint covers: the compaction's to remove. */
  #covered = 0
  #tally = newTally()
  /** How many are left of those that were loaded, which are up to this id. */
  #loaded = 0
  #loadedUntil = 0
  #isMoved = false

  constructor(checkpoint: number) {
    this.#checkpoint = checkpoint
    this.#latest = checkpoint
  }

  get unsettled(): number {
    return this.#unsettled
  }

  /** How many entries a crash would lose now. */
  get unsaved(): number {
    return this.#unsavedCount
  }

  get covered(): number {
    return this.#covered
  }

  /** Whether a persist would write anything new. */
  get isChanged(): boolean {
    return this.#isMoved || this.#unsavedCount > 0 || this.#changed.size > 0 || this.#settled.length > 0
  }

  /** All entries that were loaded are settled: none is left that may have ended a process. */
  get isCleared(): boolean {
    return this.#loaded === 0
  }

  get oldest(): Entry | undefined {
    this.#advance()
    return this.#order.peek()
  }

  /** The first entries that are unsettled. */
  first(entriesMax: number): Entry[] {
    const found: Entry[] = []
    for (const entry of this.#order) {
      if (found.length >= entriesMax) break
      if (entry.state !== 'settled') found.push(entry)
    }
    return found
  }

  /** The last id below which all are settled. */
  get checkpoint(): number {
    this.#advance()
    return this.#checkpoint
  }

  add(entry: Entry): void {
    this.#enter(entry)
    this.#unsaved.push(entry)
    this.#unsavedCount++
  }

  restore(entry: Entry): void {
    this.#enter(entry)
    entry.stored = 'yes'
    this.#loaded++
    this.#loadedUntil = entry.event.id
  }

  tried(entry: Entry, { executionMs, isFailure }: Tried): void {
    if (isFailure) this.#tally.errors++
    this.#tally.timed++
    this.#tally.executionMs += executionMs
    this.#isMoved = true
    if (entry.stored !== 'no') this.#changed.add(entry)
  }

  /** The entry has changed since it was stored. */
  changed(entry: Entry): void {
    this.#changed.add(entry)
  }

  finished(entry: Entry, ended: Ended): void {
    this.#leave(entry)
    if (entry.stored !== 'no') this.#settled.push(entry.event.id)
    if (ended.as === 'completed') this.#count(entry.event.id, ended.executionMs)
  }

  /** The durable tables have the entry now, and memory no longer. */
  moved(entry: Entry): void {
    this.#leave(entry)
  }

  /** What is to be written next; the rest is for the next page. */
  take({ rowsMax, charsMax }: PageLimits): Page {
    const { checkpoint } = this
    const added: Entry[] = []
    for (let chars = 0; this.#unsaved.size > 0 && added.length < rowsMax && chars < charsMax; ) {
      const entry = this.#unsaved.shift() as Entry
      if (entry.state === 'settled') continue
      // From now on the database may have the entry: later changes of it have to be written as well.
      entry.stored = 'perhaps'
      added.push(entry)
      chars += entry.event.payloadText.length
    }
    const changed = [...this.#changed].slice(0, rowsMax)
    for (const entry of changed) this.#changed.delete(entry)
    const tally = this.#tally
    this.#tally = newTally()
    this.#isMoved = false
    const settled = this.#takeSettled(checkpoint)
    const isMore = this.#changed.size > 0 || this.#settled.length > 0
    return { checkpoint, added, changed, settled, tally, isMore }
  }

  /** The page is written. */
  saved({ added }: Page): void {
    for (const entry of added) {
      if (entry.state !== 'settled') this.#unsavedCount--
      entry.stored = 'yes'
    }
  }

  /** The page was not written, or its answer was lost: its changes are to be written again. */
  failed({ added, changed, settled, tally }: Page): void {
    this.#unsaved.unshift(added.filter(({ state }) => state !== 'settled'))
    // Those are written again as they stand then.
    for (const entry of added) this.#changed.delete(entry)
    for (const entry of changed) if (entry.state !== 'settled') this.#changed.add(entry)
    this.#settled.push(...settled)
    const now = this.#tally
    now.processed += tally.processed
    now.errors += tally.errors
    now.timed += tally.timed
    now.executionMs += tally.executionMs
    now.lastId ??= tally.lastId
    this.#isMoved = true
  }

  /** Rows that the checkpoint covers were removed. */
  compacted(rows: number): void {
    this.#covered = Math.max(0, this.#covered - rows)
  }

  #takeSettled(checkpoint: number): number[] {
    const above: number[] = []
    const left: number[] = []
    for (const id of this.#settled) {
      if (id <= checkpoint) this.#covered++
      else if (above.length < settledMax) above.push(id)
      else left.push(id)
    }
    this.#settled = left
    return above
  }

  #enter(entry: Entry): void {
    this.#order.push(entry)
    this.#latest = Math.max(this.#latest, entry.event.id)
    this.#unsettled++
  }

  #leave(entry: Entry): void {
    this.#unsettled--
    this.#settledInside++
    this.#isMoved = true
    if (entry.stored !== 'yes') this.#unsavedCount--
    this.#changed.delete(entry)
    if (entry.event.id <= this.#loadedUntil) this.#loaded--
    if (this.#order.peek() === entry) this.#advance()
    else if (this.#settledInside > 1_000 && this.#settledInside * 2 > this.#order.size) this.#tidy()
  }

  #count(id: number, executionMs: number | null): void {
    const tally = this.#tally
    tally.processed++
    tally.lastId = id
    if (executionMs === null) return
    tally.timed++
    tally.executionMs += executionMs
  }

  #advance(): void {
    for (let entry = this.#order.peek(); entry?.state === 'settled'; entry = this.#order.peek()) {
      this.#order.shift()
      this.#settledInside--
      this.#checkpoint = entry.event.id
    }
    if (this.#order.size === 0) this.#checkpoint = this.#latest
  }

  #tidy(): void {
    this.#advance()
    this.#order.filter((entry) => entry.state !== 'settled')
    this.#settledInside = 0
  }
}

function newTally(): Counting {
  return { processed: 0, errors: 0, timed: 0, executionMs: 0, lastId: null }
}
