import type { LeasedDelivery } from '../domain/delivery.ts'
import { PosthornHttpError } from './http-error.ts'

export interface HoldWatchOptions {
  /** What is in hand and has not begun. */
  readonly unbegun: () => readonly LeasedDelivery[]
  /** Whether its queue is paused. Undefined: it is no longer ours, so nobody can say by it. */
  readonly isHeld: (delivery: LeasedDelivery) => Promise<boolean | undefined>
  /** Nothing of what is in hand may begin. */
  readonly held: () => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** No attempt begins later than a second after a pause. */
const everyMs = 600
/** By so many deliveries it is asked at a time. */
const asksMax = 3

/**
 * Asks whether what is in hand may still begin: the server can't call a worker. While all that is in hand has begun nothing is
 * asked, and else one question is enough, since all is of one queue.
 */
export class HoldWatch {
  readonly #options: HoldWatchOptions
  #timer: NodeJS.Timeout | undefined
  #isAsking = false
  #notBefore = 0

  constructor(options: HoldWatchOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.#look(), everyMs)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look(): Promise<void> {
    if (this.#isAsking || performance.now() < this.#notBefore) return
    this.#isAsking = true
    try {
      if (await this.#ask()) this.#options.held()
    } catch (error) {
      const waitMs = (error instanceof PosthornHttpError && error.retryAfterMs) || everyMs
      this.#notBefore = performance.now() + waitMs
      this.#options.trouble(error, 'asking whether the queue is paused')
    } finally {
      this.#isAsking = false
    }
  }

  /** First by the one that will begin last: what is settled while it is asked about is refused. */
  async #ask(): Promise<boolean> {
    for (let asks = 0; asks < asksMax; asks++) {
      const unbegun = this.#options.unbegun()
      const one = asks === 0 ? unbegun.at(-1) : unbegun[Math.floor(Math.random() * unbegun.length)]
      if (one === undefined) return false
      const answer = await this.#options.isHeld(one)
      if (answer !== undefined) return answer
    }
    return false
  }
}
