/** The clock of the database as last read, and the time that has passed since. Never goes back: entries would wait longer. */
export class MemoryClock {
  #offsetMs = 0

  set(nowMs: number): void {
    this.#offsetMs = Math.max(this.#offsetMs, nowMs - performance.now())
  }

  now(): number {
    return performance.now() + this.#offsetMs
  }
}
