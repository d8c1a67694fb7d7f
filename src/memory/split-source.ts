import type {
  Beat,
  Completion,
  HeldLease,
  Isolated,
  LeaseAnswer,
  SettleAnswer,
  SettleDelivery,
  Source,
  Want,
} from '../consume/source.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { CallerTransaction } from '../domain/transaction.ts'
import { MemoryRun } from './entry.ts'
import type { MemoryQueue } from './queue.ts'
import type { MemorySource } from './source.ts'

export interface SplitSourceOptions {
  readonly memory: MemorySource
  readonly database: Source
  /** Undefined: this subscription's queue is not in memory. If it is, some of what it is owed may be in the database. */
  readonly queue: (subscription: number) => MemoryQueue | undefined
  /** Whether a run of the database has to wait for what its lane has in memory. */
  readonly holdsBack: (run: LeasedRun) => boolean
  /** Whether a run has been made anew since it was asked for. */
  readonly isOutdated: (run: LeasedRun, askedAt: number) => boolean
  /** Hands the runner what the database had. */
  readonly take: (runs: readonly LeasedRun[], askedAt: number) => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** How long the database can be left alone while memory alone has enough to do. */
const askEveryMs = 100

/** Two sources behind one runner: each run goes back to where it came from. */
export class SplitSource implements Source {
  readonly #options: SplitSourceOptions
  #askedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(options: SplitSourceOptions) {
    this.#options = options
  }

  /** What memory has is given at once, whatever the database does: it is asked beside, or if memory has nothing. */
  async lease(allWants: readonly Want[]): Promise<LeaseAnswer> {
    const { memory, queue } = this.#options
    const now = performance.now()
    const wants = allWants.filter(({ subscription }) => this.#isOurs(subscription, now))
    if (wants.length === 0) return { runs: [], again: false }
    const runs = memory.take(wants)
    if (runs.length === 0 && this.#asking === undefined) return this.#leaseStored(wants, now)
    if (runs.length === 0) {
      await this.#asking
      return { runs, again: true }
    }
    const isDue = now - this.#askedAt >= askEveryMs
    const rest = isDue ? wants : wants.filter(({ subscription }) => queue(subscription) === undefined)
    if (rest.length > 0 && this.#asking === undefined) this.#asking = this.#ask(rest)
    return { runs, again: true }
  }

  async #ask(wants: readonly Want[]): Promise<void> {
    const { take, trouble } = this.#options
    const askedAt = performance.now()
    this.#askedAt = askedAt
    try {
      const { runs } = await this.#leaseStored(wants, askedAt)
      if (runs.length > 0) await take(runs, askedAt)
    } catch (error) {
      trouble(error, 'leasing')
    } finally {
      this.#asking = undefined
    }
  }

  async #leaseStored(wants: readonly Want[], askedAt: number): Promise<LeaseAnswer> {
    const { database, isOutdated } = this.#options
    const { runs, again } = await database.lease(wants)
    return { runs: runs.filter((run) => !isOutdated(run, askedAt)), again }
  }

  async peek(subscriptions: readonly number[]): Promise<boolean> {
    const { memory, database } = this.#options
    return (await memory.peek(subscriptions)) || database.peek(subscriptions)
  }

  async settle(settlements: readonly SettleDelivery[]): Promise<readonly SettleAnswer[]> {
    // Those of one kind come together: see settlesApart.
    const [first] = settlements
    const { memory, database } = this.#options
    return first !== undefined && this.settlesApart(first.delivery.run)
      ? memory.settle(settlements)
      : database.settle(settlements)
  }

  settlesApart(run: LeasedRun): boolean {
    return run instanceof MemoryRun
  }

  holdsBack(run: LeasedRun): boolean {
    return !this.settlesApart(run) && this.#options.holdsBack(run)
  }

  /** Also for a run of the database: another process may have older events of the same lane in memory. */
  mayBegin(run: LeasedRun, now: number): boolean {
    return run instanceof MemoryRun ? run.queue.hold.isOurs(now) : this.#isOurs(run.subscription, now)
  }

  #isOurs(subscription: number, now: number): boolean {
    return this.#options.queue(subscription)?.hold.isOurs(now) ?? true
  }

  async heartbeat(beats: readonly Beat[]): Promise<readonly HeldLease[]> {
    const { memory, database } = this.#options
    const [inMemory, stored] = split(beats, ({ run }) => run)
    const held = await memory.heartbeat(inMemory)
    if (stored.length === 0) return held
    if (inMemory.length === 0) return database.heartbeat(stored)
    // Without the database what is in memory is held all the same.
    const unknown = (error: unknown) =>
      stored.map(({ run }) => ({ run, renewed: false, cancelled: [], unknown: { error, waitMs: 0 } }))
    return [...held, ...(await database.heartbeat(stored).catch(unknown))]
  }

  async release(runs: readonly LeasedRun[]): Promise<void> {
    const { memory, database } = this.#options
    const [inMemory, stored] = split(runs, (run) => run)
    await memory.release(inMemory)
    if (stored.length > 0) await database.release(stored)
  }

  async releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void> {
    const { memory, database } = this.#options
    const [inMemory, stored] = split(deliveries, ({ run }) => run)
    await memory.releaseSome(inMemory)
    if (stored.length > 0) await database.releaseSome?.(stored)
  }

  isolate(delivery: LeasedDelivery): Promise<Isolated | undefined> {
    return this.#sourceOf(delivery).isolate(delivery)
  }

  completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean> {
    return this.#sourceOf(completion.delivery).completeIn(tx, completion)
  }

  isCompleted(delivery: LeasedDelivery): Promise<boolean> {
    return this.#sourceOf(delivery).isCompleted(delivery)
  }

  #sourceOf({ run }: LeasedDelivery): Source {
    return run instanceof MemoryRun ? this.#options.memory : this.#options.database
  }
}

function split<Item>(
  items: readonly Item[],
  runOf: (item: Item) => LeasedRun,
): [inMemory: Item[], stored: Item[]] {
  const inMemory: Item[] = []
  const stored: Item[] = []
  for (const item of items) (runOf(item) instanceof MemoryRun ? inMemory : stored).push(item)
  return [inMemory, stored]
}
