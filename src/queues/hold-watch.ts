import { Loop } from '../core/loop.ts'
import type { Database } from '../db/database.ts'
import type { CancelRequested } from '../engine/cancel.ts'
import { readHolds } from '../engine/held.ts'

export interface HoldWatchOptions {
  readonly db: Database
  /** By which this process leases. */
  readonly worker: () => Promise<number>
  /** Subscriptions of which this process holds deliveries that have not begun. */
  readonly waitingFor: () => readonly number[]
  /** One of them is paused, and nobody has told us. */
  readonly missed: () => void
  /** An operator has cancelled some of what this process holds. */
  readonly cancelled: (some: CancelRequested) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/**
 * Looks whether what is in hand may still begin, also when no notification comes through: no attempt begins later than a
 * second after a pause, or after it was cancelled. A process that holds nothing asks nothing; what it leases is checked by
 * the lease.
 */
export class HoldWatch {
  readonly #options: HoldWatchOptions
  readonly #loop: Loop
  #looking: Promise<void> | undefined

  constructor(options: HoldWatchOptions) {
    this.#options = options
    const { trouble } = options
    const step = async () => {
      await look(options)
      return false
    }
    this.#loop = new Loop({ name, everyMs: 600, trouble, step })
  }

  start(): void {
    this.#loop.start()
  }

  /** Somebody says that something was cancelled. If that is during a look, the loop finds it. */
  soon(): void {
    this.#looking ??= look(this.#options)
      .catch((error: unknown) => this.#options.trouble(error, name))
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#looking])
  }
}

const name = 'looking for what was paused or cancelled'

async function look({ db, worker, waitingFor, missed, cancelled }: HoldWatchOptions): Promise<void> {
  const subscriptions = waitingFor()
  if (subscriptions.length === 0) return
  const holds = await readHolds(db, { subscriptions, worker: await worker() })
  if (holds.isAnyHeld) missed()
  for (const some of holds.cancelled) cancelled(some)
}
