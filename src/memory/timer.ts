export interface TimerOptions {
  /** By the clock of the database. */
  readonly now: () => number
  readonly fire: () => void
}

const waitMsMax = 60_000

/** Fires at the earliest of the times it was set to. */
export class Timer {
  readonly #options: TimerOptions
  #timer: NodeJS.Timeout | undefined
  #atMs = Number.POSITIVE_INFINITY

  constructor(options: TimerOptions) {
    this.#options = options
  }

  at(atMs: number): void {
    if (atMs >= this.#atMs) return
    clearTimeout(this.#timer)
    this.#atMs = atMs
    const waitMs = Math.max(0, Math.min(atMs - this.#options.now(), waitMsMax))
    this.#timer = setTimeout(() => {
      this.#atMs = Number.POSITIVE_INFINITY
      this.#options.fire()
    }, Math.ceil(waitMs))
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#atMs = Number.NEGATIVE_INFINITY
  }
}
