import { Loop } from '../core/loop.ts'
import type { PublishedEvents, Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import { stepReplay } from '../deliveries/step-replay.ts'
import type { Admitter } from '../engine/admit.ts'
import { cancel } from '../engine/cancel.ts'
import { type Expired, expire } from '../engine/expire.ts'
import { forgetBlockedLanes, orphanedDeliveries } from '../engine/orphans.ts'
import { type Peek, peek } from '../engine/peek.ts'
import { unreportedPromotion } from '../engine/promotions.ts'
import { type Reclaimed, reclaim } from '../engine/reclaim.ts'
import type { SharedPeek } from '../engine/shared-peek.ts'
import { type UnroutedLetter, unroutedLetters } from '../engine/unrouted.ts'
import { type Sleeper, SleeperWatch } from '../engine/wake-sleepers.ts'
import { type OverdueAttempt, OverdueWatch } from '../observe/overdue.ts'
import { checkpoint } from '../queues/checkpoints.ts'
import { addUpTallies, finishDrains, measurePressure, type PressureChange } from '../queues/queue-upkeep.ts'
import { abandonedSubscriptions } from '../subscriptions/subscriptions.ts'

export interface UpkeepObserver {
  reclaimed(runs: number, charged: readonly Reclaimed[]): void
  expired(deliveries: readonly Expired[]): void
  abandoned(subscriptions: readonly string[]): void
  overdue(attempts: readonly OverdueAttempt[]): void
  /** A standby was promoted, on this timeline, and ids have jumped. */
  promoted(timeline: number): void
  unrouted(letters: readonly UnroutedLetter[]): void
  pressed(changes: readonly PressureChange[]): void
  drained(queues: readonly string[]): void
  asleep(sleepers: readonly Sleeper[]): void
  trouble(error: unknown, doing: string): void
}

export interface UpkeepOptions {
  readonly db: Database
  readonly admitter: Admitter
  readonly sharedPeek: SharedPeek
  readonly signals: Signals
  readonly overdueAfterMs: number
  /** Whether any queue has a limit: then queues must be measured all the time. */
  readonly handlers: { readonly isAnyLimited: boolean }
  /** One step of removing old data; true: there is more. */
  readonly retention: { step(): Promise<boolean> }
  /** Moves memory queues of vanished processes to the database; true: there is more. */
  readonly memory: { moveLeft(): Promise<boolean> }
  readonly observe: UpkeepObserver
}

const eventsMax = 5_000
/** The share of the time that the search for sleeping lanes may take. */
const sleeperShare = 1 / 20
/** The share of the time that removing old data may take, so that it does not slow down new work. */
export const pruneShare = 1 / 6

/** Loops that must run whether or not a process has handlers. Every process may run them: each step is guarded in SQL. */
export class Upkeep {
  readonly #db: Database
  readonly #admitter: Admitter
  readonly #observe: UpkeepObserver
  readonly #sharedPeek: SharedPeek
  readonly #overdue: OverdueWatch
  readonly #sleepers: SleeperWatch
  readonly #memory: UpkeepOptions['memory']
  readonly #loops: readonly Loop[]
  /** Events that no subscription wanted, and the search for their dead letters. */
  #unrouted: number[] = []
  #looking: Promise<void> | undefined

  constructor(options: UpkeepOptions) {
    const { db, admitter, sharedPeek, signals, overdueAfterMs, handlers, retention, memory, observe } =
      options
    this.#db = db
    this.#admitter = admitter
    this.#observe = observe
    this.#sharedPeek = sharedPeek
    this.#memory = memory
    signals.on('published', (published) => this.#noteUnrouted(published))
    this.#overdue = new OverdueWatch(db, { overdueAfterMs })
    this.#sleepers = new SleeperWatch(db, (sleepers) => observe.asleep(sleepers))
    const loop = (name: string, everyMs: number, step: () => Promise<boolean>, share = 1) =>
      new Loop({ name, everyMs, step, share, trouble: (error, doing) => observe.trouble(error, doing) })
    this.#loops = [
      loop('reclaiming and expiring', 2_000, async () => this.#takeBack(await this.#sharedPeek.look())),
      loop('measuring queues', 400, async () => handlers.isAnyLimited && this.#measure()),
      loop('queue checkpoints', 60_000, () => this.#checkpoint()),
      loop('replays', 1_000, async () => {
        const { replays } = await this.#sharedPeek.look()
        return replays && this.#stepReplay()
      }),
      loop('moving memory queues of vanished processes', 5_000, () => memory.moveLeft()),
      loop('looking for a promoted server', 10_000, () => this.#findPromotion()),
      loop('cancelling deliveries of deleted subscriptions', 10_000, () => this.#cancelOrphans()),
      loop('looking for sleeping lanes', 10_000, () => this.#sleepers.look(), sleeperShare),
      loop('looking for abandoned subscriptions', 60_000, () => this.#findAbandoned()),
      loop('looking for overdue attempts', 60_000, () => this.#findOverdue()),
      loop('removing old data', 60_000, () => retention.step(), pruneShare),
    ]
  }

  start(): void {
    for (const loop of this.#loops) loop.start()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()))
  }

  /** One step of each loop that a test drives by moving the clock; true while there is more. */
  async sweep(): Promise<boolean> {
    const more = await this.#takeBack(await peek(this.#db, []))
    await this.#measure()
    await this.#memory.moveLeft()
    await this.#findOverdue()
    await this.#sleepers.look()
    await this.#findPromotion()
    return (await this.#stepReplay()) || more
  }

  async #takeBack({ arrivals, overdue, tallied, draining }: Peek): Promise<boolean> {
    // Also in a process without handlers: arrivals in the inbox can expire too.
    const moved = arrivals ? (await this.#admitter.admit()).moved : 0
    const more = (tallied && (await addUpTallies(this.#db))) || moved > 0
    if (draining) await this.#finishDrains()
    if (!overdue) return more
    const { runs, charged } = await reclaim(this.#db)
    if (runs > 0) this.#observe.reclaimed(runs, charged)
    const expired = await expire(this.#db)
    if (expired.length > 0) this.#observe.expired(expired)
    return more || runs > 0 || expired.length > 0
  }

  async #finishDrains(): Promise<void> {
    const drained = await finishDrains(this.#db)
    if (drained.length > 0) this.#observe.drained(drained)
  }

  async #measure(): Promise<boolean> {
    const changes = await measurePressure(this.#db)
    if (changes.length > 0) this.#observe.pressed(changes)
    return false
  }

  async #checkpoint(): Promise<boolean> {
    return (await checkpoint(this.#db, { queues: null, reason: 'interval' })).more
  }

  /** Events that no subscription wanted may have become dead letters, which is reported; not for a repeat. */
  #noteUnrouted({ answers }: PublishedEvents): void {
    const unrouted = answers.filter(
      ({ owed, refused, replayed, conflict }) =>
        owed.length === 0 && refused === null && !replayed && !conflict,
    )
    if (unrouted.length === 0) return
    this.#unrouted = this.#unrouted.concat(unrouted.map(({ id }) => id))
    this.#looking ??= this.#findLetters()
  }

  /** Resolves when the dead letters of all unrouted events so far are reported. */
  async settled(): Promise<void> {
    await this.#looking
  }

  /** Beside the publishing, one statement at a time: later events go with the next statement. */
  async #findLetters(): Promise<void> {
    try {
      while (this.#unrouted.length > 0) {
        const letters = await unroutedLetters(this.#db, this.#unrouted.splice(0, eventsMax))
        if (letters.length > 0) this.#observe.unrouted(letters)
      }
    } catch (error) {
      this.#unrouted = []
      this.#observe.trouble(error, 'looking for events that no subscription wanted')
    } finally {
      this.#looking = undefined
    }
  }

  async #stepReplay(): Promise<boolean> {
    return (await stepReplay(this.#db)) !== undefined
  }

  async #cancelOrphans(): Promise<boolean> {
    const orphans = await orphanedDeliveries(this.#db)
    if (orphans === undefined) return forgetBlockedLanes(this.#db)
    const cancelled = await cancel(this.#db, { ...orphans, reason: 'the subscription was deleted' })
    return cancelled.length > 0
  }

  async #findAbandoned(): Promise<boolean> {
    const names = await abandonedSubscriptions(this.#db)
    if (names.length > 0) this.#observe.abandoned(names)
    return false
  }

  async #findPromotion(): Promise<boolean> {
    const timeline = await unreportedPromotion(this.#db)
    if (timeline !== undefined) this.#observe.promoted(timeline)
    return false
  }

  async #findOverdue(): Promise<boolean> {
    const attempts = await this.#overdue.look()
    if (attempts.length > 0) this.#observe.overdue(attempts)
    return false
  }
}
