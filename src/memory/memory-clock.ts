/**
 * The clock of the database, by what it said and the time that has passed since. It never goes back: what waits here would
 * wait for as long as the step.
 */
export class MemoryClock {
  #offsetMs = 0

  set(nowMs: number): void {
    this.#offsetMs = Math.max(this.#offsetMs, nowMs - performance.now())
  }

  now(): number {
    return performance.now() + this.#offsetMs
  }
}
