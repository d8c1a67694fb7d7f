import type { MemoryClock } from './memory-clock.ts'

const waitMsMax = 60_000

/** Fires at the earliest of the times it was set to. */
export class Timer {
  readonly #clock: MemoryClock
  readonly #fire: () => void
  #timer: NodeJS.Timeout | undefined
  #atMs = Number.POSITIVE_INFINITY

  constructor(clock: MemoryClock, fire: () => void) {
    this.#clock = clock
    this.#fire = fire
  }

  /** By the clock of the database; null: nothing is waited for. */
  at(atMs: number | null): void {
    if (atMs === null || atMs >= this.#atMs) return
    clearTimeout(this.#timer)
    this.#atMs = atMs
    const waitMs = Math.max(0, Math.min(atMs - this.#clock.now(), waitMsMax))
    this.#timer = setTimeout(() => {
      this.#atMs = Number.POSITIVE_INFINITY
      this.#fire()
    }, Math.ceil(waitMs))
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#atMs = Number.NEGATIVE_INFINITY
  }
}
