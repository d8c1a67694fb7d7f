/** The clock of the database, by what it said last and the time that has passed since. */
export class MemoryClock {
  #offsetMs = 0

  set(nowMs: number): void {
    this.#offsetMs = nowMs - performance.now()
  }

  now(): number {
    return performance.now() + this.#offsetMs
  }
}
