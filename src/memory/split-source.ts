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
import type { Core } from '../core/core.ts'
import type { Signals } from '../core/signals.ts'
import type { CallerTransaction } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun, MemoryTerms } from '../domain/delivery.ts'
import { isAdopted, movedOf } from './adoption.ts'
import { type MemoryDelivery, MemoryRun } from './entry.ts'
import type { HeldBack } from './held-back.ts'
import type { MemorySource } from './memory-source.ts'
import type { OpenQueues } from './persister.ts'

export interface SplitSourceOptions extends Pick<Core, 'trouble'> {
  readonly memory: MemorySource
  readonly database: Source
  /** Some of what their subscriptions are owed may be in the database. */
  readonly queues: OpenQueues
  readonly heldBack: HeldBack
  /** Hands the runner what the database had. */
  readonly signals: Pick<Signals, 'emitAndWait'>
}

/** Where a delivery that began in memory is now, and what it is known as there. */
interface Home {
  readonly source: Pick<Source, 'settle' | 'isolate' | 'completeIn' | 'isCompleted'>
  readonly delivery: LeasedDelivery
}

/** How long the database can be left alone while memory alone has enough to do. */
const askEveryMs = 100

/** Memory and the database behind one runner: each run goes back to where it came from. */
export class SplitSource implements Source {
  readonly #options: SplitSourceOptions
  #askedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(options: SplitSourceOptions) {
    this.#options = options
  }

  /** What memory has is given at once, whatever the database does: it is asked beside, or if memory has nothing. */
  async lease(allWants: readonly Want[]): Promise<LeaseAnswer> {
    const { memory, queues } = this.#options
    const now = performance.now()
    const wants = allWants.filter(({ subscription }) => this.#isOurs(subscription, now))
    if (wants.length === 0) return { runs: [], again: false }
    const runs = memory.lease(wants)
    if (runs.length === 0 && this.#asking === undefined) return this.#leaseStored(wants, now)
    if (runs.length === 0) {
      await this.#asking
      return { runs, again: true }
    }
    const isDue = now - this.#askedAt >= askEveryMs
    const rest = isDue ? wants : wants.filter(({ subscription }) => !queues.has(subscription))
    if (rest.length > 0 && this.#asking === undefined) this.#asking = this.#ask(rest)
    return { runs, again: true }
  }

  async #ask(wants: readonly Want[]): Promise<void> {
    const { signals, trouble } = this.#options
    const askedAt = performance.now()
    this.#askedAt = askedAt
    try {
      const { runs } = await this.#leaseStored(wants, askedAt)
      if (runs.length > 0) await signals.emitAndWait('runsLeased', { runs, askedAt })
    } catch (error) {
      trouble(error, 'leasing')
    } finally {
      this.#asking = undefined
    }
  }

  async #leaseStored(wants: readonly Want[], askedAt: number): Promise<LeaseAnswer> {
    const { database, heldBack } = this.#options
    const { runs, again } = await database.lease(wants.map((want) => this.#withToken(want)))
    const outdated = runs.filter((run) => heldBack.isOutdated(run, askedAt))
    // Their runs may be as they were: nobody here goes on with them.
    if (outdated.length > 0) await database.release(outdated)
    const current = runs.filter((run) => !outdated.includes(run))
    for (const run of current) run.memory = this.#termsOf(run)
    return { runs: current, again }
  }

  /** Also for a run of the database: another process may have older events of the same lane in memory. */
  #termsOf(run: LeasedRun): MemoryTerms {
    return {
      settlesInMemory: false,
      mayBegin: (now) => this.#isOurs(run.subscription, now),
      holdsBack: () => this.#options.heldBack.holds(run),
    }
  }

  #withToken(want: Want): Want {
    const queue = this.#options.queues.get(want.subscription)?.queue
    return queue === undefined ? want : { ...want, memoryToken: queue.token }
  }

  async peek(subscriptions: readonly number[]): Promise<boolean> {
    const { memory, database } = this.#options
    return memory.hasReady(subscriptions) || database.peek(subscriptions)
  }

  async settle(settlements: readonly SettleDelivery[]): Promise<readonly SettleAnswer[]> {
    // The runner settles runs in memory apart from stored ones.
    const [first] = settlements
    const { memory, database } = this.#options
    if (!(first?.delivery.run instanceof MemoryRun)) return database.settle(settlements)
    if (!settlements.some(({ delivery }) => isAdopted(delivery))) {
      const answers = await memory.settle(settlements)
      if (!answers.includes('lost')) return answers
      return Promise.all(
        answers.map((answer, place) =>
          answer === 'lost' ? this.#settleAdopted(settlements[place] as SettleDelivery) : answer,
        ),
      )
    }
    return Promise.all(settlements.map((one) => this.#settleAdopted(one)))
  }

  /** The queue was, or is being, moved to the database while this attempt was under way. */
  async #settleAdopted(settlement: SettleDelivery): Promise<SettleAnswer> {
    const home = await this.#homeOf(settlement.delivery)
    if (typeof home === 'string') return home
    const [answer] = await home.source.settle([{ ...settlement, delivery: home.delivery }])
    return answer as SettleAnswer
  }

  /** Waits until that is decided. `'completed'`, `'lost'`: no source of this process has it any more. */
  async #homeOf(delivery: LeasedDelivery): Promise<Home | 'completed' | 'lost'> {
    const { memory, database } = this.#options
    const adopted = (await (delivery as MemoryDelivery).entry.adoption?.decided) ?? null
    if (typeof adopted === 'string') return adopted
    if (adopted === null) return { source: memory, delivery }
    return { source: database, delivery: adopted.deliveries[0] as LeasedDelivery }
  }

  #isOurs(subscription: number, now: number): boolean {
    return this.#options.queues.get(subscription)?.queue.hold.isOurs(now) ?? true
  }

  async heartbeat(beats: readonly Beat[]): Promise<readonly HeldLease[]> {
    const { memory, database } = this.#options
    const [allInMemory, stored] = split(beats, ({ run }) => run)
    const moved = allInMemory.filter(({ run }) => movedOf(run as MemoryRun) !== undefined)
    const inMemory = allInMemory.filter((beat) => !moved.includes(beat))
    const held = await memory.heartbeat(inMemory)
    if (allInMemory.length === 0) return database.heartbeat(stored)
    // Without the database what is in memory is held all the same.
    const unknown = (some: readonly Beat[]) => (error: unknown) =>
      some.map(({ run }) => ({ run, renewed: false, cancelled: [], unknown: { error, waitMs: 0 } }))
    const renewed = await Promise.all([
      moved.length === 0 ? [] : this.#heartbeatMoved(moved).catch(unknown(moved)),
      stored.length === 0 ? [] : database.heartbeat(stored).catch(unknown(stored)),
    ])
    return [...held, ...renewed.flat()]
  }

  /** A run of memory may be several runs in the database by now: it is held while any of them is, or until that is known. */
  async #heartbeatMoved(beats: readonly Beat[]): Promise<HeldLease[]> {
    const moved = beats.map(({ run, begun }) => ({ run, begun, ...movedOf(run as MemoryRun) }))
    const adopted = moved.flatMap(({ runs = [], begun }) => beatsOf(runs, begun))
    const leases = adopted.length === 0 ? [] : await this.#options.database.heartbeat(adopted)
    return moved.flatMap(({ run, runs = [], isOpen = false }) => {
      const own = leases.filter((lease) => runs.includes(lease.run))
      if (!isOpen && own.length === 0) return []
      // Another process may have what is not decided yet: asked again soon, so that it is told to stop.
      const isLost = (run as MemoryRun).queue.isLost
      const renewed = (isOpen && !isLost) || own.some((lease) => lease.renewed)
      return [{ run, renewed, cancelled: own.flatMap((lease) => lease.cancelled) }]
    })
  }

  async release(runs: readonly LeasedRun[]): Promise<void> {
    const { memory, database } = this.#options
    const [inMemory, stored] = split(runs, (run) => run)
    await memory.release(inMemory)
    const adopted = inMemory.flatMap((run) => movedOf(run as MemoryRun)?.runs ?? [])
    if (stored.length + adopted.length > 0) await database.release([...stored, ...adopted])
  }

  async releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void> {
    const { memory, database } = this.#options
    const [inMemory, stored] = split(deliveries, ({ run }) => run)
    await memory.releaseSome(inMemory)
    if (stored.length > 0) await database.releaseSome(stored)
  }

  /** The runner goes on with the run that it knows: an adopted delivery is alone in its run, or the head of a lane. */
  async isolate(delivery: LeasedDelivery): Promise<Isolated | undefined> {
    const { memory, database } = this.#options
    if (!(delivery.run instanceof MemoryRun)) return database.isolate(delivery)
    if (isOpenIn(delivery)) return memory.isolate(delivery)
    const home = await this.#homeOf(delivery)
    if (typeof home === 'string') return undefined
    const isolated = await home.source.isolate(home.delivery)
    return isolated && { ...isolated, run: delivery.run }
  }

  async completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean> {
    const { memory, database } = this.#options
    const { delivery } = completion
    if (!(delivery.run instanceof MemoryRun)) return database.completeIn(tx, completion)
    if (!isAdopted(delivery) || isOpenIn(delivery)) {
      if (await memory.completeIn(tx, completion)) return true
      // Its queue may have begun to move meanwhile.
      if (!isAdopted(delivery)) return false
    }
    const home = await this.#homeOf(delivery)
    if (typeof home === 'string') return false
    return home.source.completeIn(tx, { ...completion, delivery: home.delivery })
  }

  async isCompleted(delivery: LeasedDelivery): Promise<boolean> {
    if (!(delivery.run instanceof MemoryRun)) return this.#options.database.isCompleted(delivery)
    const home = await this.#homeOf(delivery)
    if (typeof home === 'string') return home === 'completed'
    return home.source.isCompleted(home.delivery)
  }
}

/** A transaction of its handler has completed it in memory and may be open: the move waits for its end, not the reverse. */
function isOpenIn(delivery: LeasedDelivery): boolean {
  const { adoption, completing } = (delivery as MemoryDelivery).entry
  return completing !== null && adoption?.result === undefined
}

function beatsOf(runs: readonly LeasedRun[], begun: readonly number[]): Beat[] {
  return runs.map((run) => ({
    run,
    begun: begun.filter((id) => run.deliveries.some(({ event }) => event.id === id)),
  }))
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
