import type { LeasedDelivery } from '../domain/delivery.ts'
import { PosthornHttpError } from './http-error.ts'

export interface PauseWatchOptions {
  /** Held deliveries that have not begun. */
  readonly unbegun: () => readonly LeasedDelivery[]
  /** Whether the queue is paused; undefined: the worker has lost this delivery, so the answer does not say. */
  readonly isHeld: (delivery: LeasedDelivery) => Promise<boolean | undefined>
  /** Hands back the deliveries that have not begun. */
  readonly held: () => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** No attempt begins later than a second after a pause. */
const everyMs = 600
/** One look asks about at most this many deliveries, until one is not refused. */
const asksMax = 3

/**
 * Asks whether the queue is paused, since the server cannot call a worker. It asks only while the worker holds deliveries that have not
 * begun. One question is enough, since all of them are in one queue.
 */
export function watchForPause({ unbegun, isHeld, held, trouble }: PauseWatchOptions): { stop(): void } {
  let isAsking = false
  let notBefore = 0
  const timer = setInterval(() => void look(), everyMs)
  return { stop: () => clearInterval(timer) }

  async function look(): Promise<void> {
    if (isAsking || performance.now() < notBefore) return
    isAsking = true
    try {
      if (await ask()) held()
    } catch (error) {
      const waitMs = (error instanceof PosthornHttpError && error.retryAfterMs) || everyMs
      notBefore = performance.now() + waitMs
      trouble(error, 'asking whether the queue is paused')
    } finally {
      isAsking = false
    }
  }

  /** Asks first about the delivery that will begin last, since a delivery that is settled meanwhile is refused. */
  async function ask(): Promise<boolean> {
    for (let asks = 0; asks < asksMax; asks++) {
      const waiting = unbegun()
      const one = asks === 0 ? waiting.at(-1) : waiting[Math.floor(Math.random() * waiting.length)]
      if (one === undefined) return false
      const answer = await isHeld(one)
      if (answer !== undefined) return answer
    }
    return false
  }
}
