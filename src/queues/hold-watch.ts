import { Loop } from '../core/loop.ts'
import type { Database } from '../db/database.ts'
import type { CancelRequested } from '../engine/cancel.ts'
import { readHolds } from '../engine/held.ts'

export interface HoldWatchOptions {
  readonly db: Database
  /** The worker number by which this process leases. */
  readonly worker: () => Promise<number>
  /** Subscriptions of which this process holds deliveries that have not begun. */
  readonly waitingFor: () => readonly number[]
  /** One of these subscriptions is paused, and this process has not heard of it. */
  readonly missed: () => void
  /** An operator has cancelled deliveries that this process holds. */
  readonly cancelled: (deliveries: CancelRequested) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/**
 * Checks whether deliveries that this process holds may still begin, also when notifications are lost: no attempt begins later
 * than a second after its queue was paused or the delivery was cancelled. A process that holds nothing asks nothing; the lease
 * itself checks what it leases.
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

  /** Look now: something was cancelled. If a look is under way, the loop finds it. */
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

const name = 'looking for paused queues and cancelled deliveries'

async function look({ db, worker, waitingFor, missed, cancelled }: HoldWatchOptions): Promise<void> {
  const subscriptions = waitingFor()
  if (subscriptions.length === 0) return
  const holds = await readHolds(db, { subscriptions, worker: await worker() })
  if (holds.isAnyHeld) missed()
  for (const deliveries of holds.cancelled) cancelled(deliveries)
}
