import type { Entry, Lane } from './entry.ts'
import { Fifo } from './fifo.ts'
import { Heap } from './heap.ts'

/** Entries and lanes that can be leased, by age, and those that wait for a time. A lane stands where its head does. */
export class Waiting {
  /** Without a key and never tried, in order. */
  readonly #fresh = new Fifo<Entry>()
  /** Lanes, and what waits for another try. */
  readonly #ready = new Heap<Entry | Lane>((one) => headOf(one).event.id)
  readonly #later = new Heap<Entry | Lane>((one) => headOf(one).dueAtMs ?? 0)

  get delayed(): number {
    return this.#later.size
  }

  /** When the next entry is due that waits for a time; null: none waits. */
  get nextDueAtMs(): number | null {
    return this.#later.size === 0 ? null : this.#later.rank
  }

  /** An entry that is younger than all before it. */
  addFresh(entry: Entry): void {
    this.#fresh.push(entry)
  }

  /** Can be leased from now on, or from its time on. */
  add(one: Entry | Lane): void {
    const { dueAtMs } = headOf(one)
    one.state = dueAtMs === null ? 'waiting' : 'later'
    if (dueAtMs === null) this.#ready.push(one)
    else this.#later.push(one)
  }

  /** Entries that are due can be leased. */
  promote(nowMs: number): void {
    while (this.#later.size > 0 && this.#later.rank <= nowMs) {
      const one = this.#later.pop() as Entry | Lane
      if (isStale(one, 'later')) continue
      headOf(one).dueAtMs = null
      this.add(one)
    }
  }

  /** The oldest that can be leased now. */
  next(): Entry | Lane | undefined {
    while (isStale(this.#ready.peek(), 'waiting')) this.#ready.pop()
    return this.isFresh ? this.#fresh.peek() : this.#ready.peek()
  }

  /** Whether `next` has never been tried, and has no lane. */
  get isFresh(): boolean {
    const entry = this.#fresh.peek()
    return entry !== undefined && entry.event.id < this.#ready.rank
  }

  /** Takes out the next entries that have never been tried and have no lane. */
  takeFresh(entriesMax: number): Entry[] {
    const taken: Entry[] = []
    const before = this.#ready.rank
    while (taken.length < entriesMax) {
      const entry = this.#fresh.peek()
      if (entry === undefined || entry.event.id > before) break
      this.#fresh.shift()
      taken.push(entry)
    }
    return taken
  }

  /** Takes out what `next` said. */
  take(): void {
    if (this.isFresh) this.#fresh.shift()
    else this.#ready.pop()
  }
}

export function headOf(one: Entry | Lane): Entry {
  return 'entries' in one ? (one.entries.peek() as Entry) : one
}

/** Settled entries are left where they waited, and are skipped. */
function isStale(one: Entry | Lane | undefined, state: 'waiting' | 'later'): boolean {
  if (one === undefined) return false
  return one.state !== state || ('entries' in one && one.entries.size === 0)
}
