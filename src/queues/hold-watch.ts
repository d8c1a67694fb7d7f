import type { Core } from '../core/core.ts'
import { Loop } from '../core/loop.ts'
import { readHolds } from '../engine/held.ts'

/** The runner of this process, as far as its unbegun deliveries go. */
export interface RunnerInHand {
  /** Subscriptions of which this process holds deliveries that have not begun. */
  readonly waitingFor: readonly number[]
  cancel(subscription: number, eventIds: readonly number[]): void
}

type Needs = Pick<Core, 'db' | 'worker' | 'signals' | 'trouble'> & { readonly runner: RunnerInHand }

/**
 * Checks whether deliveries that this process holds may still begin, also when notifications are lost: no attempt begins later
 * than a second after its queue was paused or the delivery was cancelled. A process that holds nothing asks nothing; the lease
 * itself checks what it leases.
 */
export class HoldWatch {
  readonly #needs: Needs
  readonly #loop: Loop
  #looking: Promise<void> | undefined

  constructor(needs: Needs) {
    this.#needs = needs
    const { signals, trouble } = needs
    const step = async () => {
      await look(needs)
      return false
    }
    signals.on('deliveriesCancelled', () => this.soon())
    this.#loop = new Loop({ name, everyMs: 600, trouble, step })
  }

  start(): void {
    this.#loop.start()
  }

  /** Deliveries were cancelled. If that happens during a look, the loop finds it. */
  soon(): void {
    this.#looking ??= look(this.#needs)
      .catch((error: unknown) => this.#needs.trouble(error, name))
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#looking])
  }
}

const name = 'looking for paused queues and cancelled deliveries'

async function look({ db, worker, runner, signals }: Needs): Promise<void> {
  const subscriptions = runner.waitingFor
  if (subscriptions.length === 0) return
  const holds = await readHolds(db, { subscriptions, worker: await worker() })
  // A queue is paused, and the notification has not come through.
  if (holds.isAnyHeld) signals.emit('subscriptionsChanged')
  for (const { subscription, eventIds } of holds.cancelled) runner.cancel(subscription, eventIds)
}
