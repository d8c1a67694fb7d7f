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
  readonly #options: UpkeepOptions
  readonly #overdue: OverdueWatch
  readonly #sleepers: SleeperWatch
  readonly #loops: readonly Loop[]
  /** Events that no subscription wanted, and the search for their dead letters. */
  #unrouted: number[] = []
  #looking: Promise<void> | undefined

  constructor(options: UpkeepOptions) {
    const { db, sharedPeek, signals, overdueAfterMs, handlers, retention, memory, observe } = options
    this.#options = options
    signals.on('published', (published) => this.#noteUnrouted(published))
    this.#overdue = new OverdueWatch(db, { overdueAfterMs })
    this.#sleepers = new SleeperWatch(db, (sleepers) => observe.asleep(sleepers))
    const loop = (name: string, everyMs: number, step: () => Promise<boolean>, share = 1) =>
      new Loop({ name, everyMs, step, share, trouble: (error, doing) => observe.trouble(error, doing) })
    const due = { queues: null, reason: 'interval' } as const
    this.#loops = [
      loop('reclaiming and expiring', 2_000, async () => this.#takeBack(await sharedPeek.look())),
      loop('measuring queues', 400, async () => handlers.isAnyLimited && this.#measure()),
      loop('queue checkpoints', 60_000, async () => (await checkpoint(db, due)).more),
      loop('replays', 1_000, async () => {
        const { replays } = await sharedPeek.look()
        return replays && this.#stepReplay()
      }),
      loop('moving memory queues of vanished processes', 5_000, () => memory.moveLeft()),
      loop('looking for a promoted server', 10_000, () => this.#findPromotion()),
      loop('cancelling deliveries of deleted subscriptions', 10_000, () => this.#cancelOrphans()),
      loop('looking for sleeping lanes', 10_000, () => this.#sleepers.look(), sleeperShare),
      loop('looking for abandoned subscriptions', 60_000, () =>
        tell(abandonedSubscriptions(db), (names) => observe.abandoned(names)),
      ),
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
    const { db, memory } = this.#options
    const more = await this.#takeBack(await peek(db, []))
    await this.#measure()
    await memory.moveLeft()
    await this.#findOverdue()
    await this.#sleepers.look()
    await this.#findPromotion()
    return (await this.#stepReplay()) || more
  }

  async #takeBack({ arrivals, overdue, tallied, draining }: Peek): Promise<boolean> {
    const { db, admitter, observe } = this.#options
    // Also in a process without handlers: arrivals in the inbox can expire too.
    const moved = arrivals ? (await admitter.admit()).moved : 0
    const more = (tallied && (await addUpTallies(db))) || moved > 0
    if (draining) await tell(finishDrains(db), (queues) => observe.drained(queues))
    if (!overdue) return more
    const { runs, charged } = await reclaim(db)
    if (runs > 0) observe.reclaimed(runs, charged)
    const expired = await expire(db)
    if (expired.length > 0) observe.expired(expired)
    return more || runs > 0 || expired.length > 0
  }

  #measure(): Promise<boolean> {
    const { db, observe } = this.#options
    return tell(measurePressure(db), (changes) => observe.pressed(changes))
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
        const letters = await unroutedLetters(this.#options.db, this.#unrouted.splice(0, eventsMax))
        if (letters.length > 0) this.#options.observe.unrouted(letters)
      }
    } catch (error) {
      this.#unrouted = []
      this.#options.observe.trouble(error, 'looking for events that no subscription wanted')
    } finally {
      this.#looking = undefined
    }
  }

  async #stepReplay(): Promise<boolean> {
    return (await stepReplay(this.#options.db)) !== undefined
  }

  async #cancelOrphans(): Promise<boolean> {
    const { db } = this.#options
    const orphans = await orphanedDeliveries(db)
    if (orphans === undefined) return forgetBlockedLanes(db)
    const cancelled = await cancel(db, { ...orphans, reason: 'the subscription was deleted' })
    return cancelled.length > 0
  }

  async #findPromotion(): Promise<boolean> {
    const timeline = await unreportedPromotion(this.#options.db)
    if (timeline !== undefined) this.#options.observe.promoted(timeline)
    return false
  }

  #findOverdue(): Promise<boolean> {
    return tell(this.#overdue.look(), (attempts) => this.#options.observe.overdue(attempts))
  }
}

/** Reports what was found, if anything was. False: there is no more. */
async function tell<Found>(
  found: Promise<readonly Found[]>,
  report: (found: readonly Found[]) => void,
): Promise<boolean> {
  const all = await found
  if (all.length > 0) report(all)
  return false
}
