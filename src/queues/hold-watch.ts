import type { Core } from '../core/core.ts'
import { Loop } from '../core/loop.ts'
import { Refresher } from '../core/refresher.ts'
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
  readonly #loop: Loop
  readonly #refresher: Refresher

  constructor(needs: Needs) {
    const { signals, trouble } = needs
    const read = () => look(needs)
    this.#loop = new Loop({ name, everyMs: 600, trouble, step: () => read().then(() => false) })
    this.#refresher = new Refresher({ read, trouble: (error) => trouble(error, name) })
    signals.on('deliveriesCancelled', () => this.#refresher.soon())
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#refresher.stop()])
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
