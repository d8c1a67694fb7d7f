import type {
  Beat,
  Completion,
  HeldLease,
  Isolated,
  SettleAnswer,
  SettleDelivery,
  Want,
} from '../consume/source.ts'
import type { Core } from '../core/core.ts'
import type { CallerTransaction } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { checkSnapshot, markNow } from '../engine/snapshot.ts'
import type { Burial } from '../observe/hub-events.ts'
import { observePickup } from '../observe/pickup.ts'
import { isMoving } from './adoption.ts'
import { type BuryMemoryRequest, buryMemory } from './bury-memory.ts'
import {
  awaitMemoryCompletion,
  completeMemoryIn,
  isCompletedInMemory,
  isCompletedInMemoryBy,
  markMemory,
} from './complete-memory.ts'
import { type Entry, isOutWith, type MemoryDelivery, type MemoryRun } from './entry.ts'
import type { HeldBack } from './held-back.ts'
import type { MemoryClock } from './memory-clock.ts'
import type { MemoryQueue } from './memory-queue.ts'
import type { OpenQueues, Persister } from './persister.ts'
import type { Timer } from './timer.ts'

export interface MemorySourceOptions extends Pick<Core, 'db' | 'worker' | 'metrics'> {
  readonly clock: MemoryClock
  readonly queues: OpenQueues
  readonly heldBack: HeldBack
  /** Wakes the runner when something is due. */
  readonly timer: Timer
}

type MemoryBurial = Pick<
  BuryMemoryRequest,
  'attempt' | 'failures' | 'reason' | 'startedAfterMs' | 'executionMs'
>

/** The memory's end of the runner: nothing waits for the database but burials and what settles in a transaction. */
export class MemorySource {
  readonly #options: MemorySourceOptions

  constructor(options: MemorySourceOptions) {
    this.#options = options
  }

  /** At most what is wanted, oldest first. */
  lease(wants: readonly Want[]): MemoryRun[] {
    const { queues, metrics, timer } = this.#options
    const runs: MemoryRun[] = []
    for (const want of wants) {
      const queue = queues.get(want.subscription)?.queue
      if (queue === undefined) continue
      const { leaseMs } = queue.subscription
      for (const run of queue.lease(want, leaseMs)) {
        observePickup(metrics, run, leaseMs)
        runs.push(run)
      }
      timer.at(queue.nextDueAtMs)
    }
    return runs
  }

  hasReady(subscriptions: readonly number[]): boolean {
    return subscriptions.some((no) => {
      const queue = this.#options.queues.get(no)?.queue
      return queue?.hasReady && queue.hold.isOurs(performance.now())
    })
  }

  async settle(settlements: readonly SettleDelivery[]): Promise<SettleAnswer[]> {
    const answers: SettleAnswer[] = []
    for (const settlement of settlements) {
      const { kind } = settlement.settlement
      const delivery = settlement.delivery as MemoryDelivery
      const isPlain = kind !== 'bury' && delivery.entry.completing === null
      answers.push(
        isPlain ? this.#settle(delivery, settlement) : await this.#settleSlowly(delivery, settlement),
      )
    }
    return answers
  }

  async heartbeat(beats: readonly Beat[]): Promise<HeldLease[]> {
    const held: HeldLease[] = []
    for (const { run, begun } of beats) {
      const { queue, suspect } = run as MemoryRun
      if (queue.isLost || (suspect && begun.length > 0 && !(await this.#mark(run, begun)))) continue
      held.push({ run, renewed: true, cancelled: [] })
    }
    return held
  }

  async release(runs: readonly LeasedRun[]): Promise<void> {
    for (const run of runs) (run as MemoryRun).queue.releaseRun(run as MemoryRun)
  }

  async releaseSome(deliveries: readonly LeasedDelivery[]): Promise<void> {
    for (const delivery of deliveries) queueOf(delivery).release(delivery as MemoryDelivery)
  }

  /** Nobody else needs what a transaction locks, so it stays where it is. */
  async isolate(delivery: LeasedDelivery): Promise<Isolated | undefined> {
    if (queueOf(delivery).isLost) return undefined
    return { run: delivery.run, mark: await markNow(this.#options.db) }
  }

  /** The queue's token is read by the caller's snapshot: an older one would name a holder that is gone. */
  async completeIn(tx: CallerTransaction, { delivery, mark }: Completion): Promise<boolean> {
    const { db } = this.#options
    const { entry, run } = delivery as MemoryDelivery
    const name = nameOf(delivery)
    if (entry.completing !== null && (await isCompletedInMemoryBy(tx, db, name))) return true
    await checkSnapshot(tx, mark)
    // The attempt may have timed out meanwhile: what was settled in memory is fenced here, not in the database.
    if (!isOutWith(entry, run) || isMoving(entry)) return false
    const completing = completeMemoryIn(tx, db, name)
    entry.completing = completing
    return completing
  }

  /** What is completed is settled: the runner does not say so again. */
  async isCompleted(delivery: LeasedDelivery): Promise<boolean> {
    const isCompleted = await isCompletedInMemory(this.#options.db, nameOf(delivery))
    if (isCompleted) this.#finish(delivery as MemoryDelivery, null)
    return isCompleted
  }

  #settle(delivery: MemoryDelivery, { settlement, executionMs }: SettleDelivery): SettleAnswer {
    const queue = queueOf(delivery)
    const { entry, attempt: attempts } = delivery
    if (queue.isLost || isMoving(entry)) return 'lost'
    switch (settlement.kind) {
      case 'complete':
        this.#finish(delivery, executionMs)
        break
      case 'retry':
      case 'snooze': {
        const dueAtMs = this.#options.clock.now() + settlement.afterMs
        const isFailure = settlement.kind === 'retry'
        const failures = isFailure ? settlement.failures : entry.failures
        const lastError = isFailure ? settlement.reason : entry.lastError
        const change = { attempts, failures, dueAtMs, lastError }
        queue.postpone(delivery, change, { executionMs, isFailure })
        this.#options.timer.at(dueAtMs)
        break
      }
      case 'cancel':
        queue.finish(entry, { as: 'other' })
        break
      default:
        queue.release(delivery)
    }
    return 'settled'
  }

  #finish(delivery: MemoryDelivery, executionMs: number | null): void {
    queueOf(delivery).finish(delivery.entry, { as: 'completed', executionMs })
  }

  async #settleSlowly(delivery: MemoryDelivery, settled: SettleDelivery): Promise<SettleAnswer> {
    const { db } = this.#options
    const { entry } = delivery
    if (entry.completing !== null && isOutWith(entry, delivery.run)) {
      // The statement must have reached the database before its transaction can be waited for.
      await entry.completing.catch(() => undefined)
      if (await awaitMemoryCompletion(db, nameOf(delivery))) {
        this.#finish(delivery, settled.executionMs)
        return 'completed'
      }
      entry.completing = null
    }
    const { settlement, startedAfterMs, executionMs } = settled
    if (settlement.kind !== 'bury') return this.#settle(delivery, settled)
    const { reason, failures } = settlement
    const burial = { attempt: delivery.attempt, failures, reason, startedAfterMs, executionMs }
    return this.#bury(queueOf(delivery), entry, burial)
  }

  /** Buries a delivery that has ended one process too many. Undefined: the queue is lost. */
  async buryExhausted(queue: MemoryQueue, entry: Entry): Promise<Burial | undefined> {
    const { attempts: attempt, failures, lastError, event } = entry
    const reason = lastError ?? ''
    const burial = { attempt, failures, reason, startedAfterMs: 0, executionMs: 0 }
    if ((await this.#bury(queue, entry, burial)) !== 'settled') return undefined
    const { name: subscription } = queue.subscription
    return { subscription, eventId: event.id, type: event.type, reason, stopsLane: stoppedLane(queue, entry) }
  }

  /** Persisted first, so that it can be moved to the dead letters; until that is done it is not settled. */
  async #bury(queue: MemoryQueue, entry: Entry, burial: MemoryBurial): Promise<SettleAnswer> {
    const { db, worker, heldBack } = this.#options
    if (queue.isLost) return 'lost'
    const stopsLane = stoppedLane(queue, entry)
    if (stopsLane !== null) queue.closeLane(stopsLane)
    if (entry.state !== 'settled') await this.#persisterOf(queue).persist()
    const name = { subscription: queue.subscription.no, token: queue.token, eventId: entry.event.id }
    const request = { ...name, ...burial, stopsLane, worker: await worker() }
    if (isMoving(entry)) return 'lost'
    const answer = await buryMemory(db, request)
    // An event that is not in memory any more was moved, or was buried by a statement whose answer was lost.
    if (answer === 'not ours' || (answer === 'not found' && entry.adoption !== null)) return 'lost'
    if (stopsLane !== null) heldBack.giveUp(queue.subscription.no, stopsLane)
    queue.finish(entry, { as: 'other' })
    if (stopsLane !== null) queue.giveUpLane(stopsLane)
    return 'settled'
  }

  /** What came of those before it is written first: it alone is to be charged, and for the last time as well. */
  async #mark(run: LeasedRun, begun: readonly number[]): Promise<boolean> {
    const { subscription, token, queue } = run as MemoryRun
    await this.#persisterOf(queue).persist()
    for (const eventId of begun) {
      if (!(await markMemory(this.#options.db, { subscription, token, eventId }))) return false
    }
    return true
  }

  #persisterOf({ subscription }: MemoryQueue): Persister {
    return this.#options.queues.get(subscription.no) as Persister
  }
}

/** The lane that stops at a buried head; null: none does. */
function stoppedLane({ subscription }: MemoryQueue, { lane }: Entry): string | null {
  return subscription.onExhausted === 'block' ? (lane?.key ?? null) : null
}

function queueOf({ run }: LeasedDelivery): MemoryQueue {
  return (run as MemoryRun).queue
}

function nameOf({ run, event }: LeasedDelivery) {
  return { subscription: run.subscription, token: run.token, eventId: event.id }
}
