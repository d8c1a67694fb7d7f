import type { Database } from '../db/database.ts'
import { registerWorker, touchWorkers } from '../workers/workers.ts'

const namesMax = 10_000

/** The numbers of pull workers by their names, and the workers heard of since the last sign of life was stored. */
export class WorkerNames {
  readonly #db: Database
  readonly #numbers = new Map<string, number>()
  readonly #heard = new Set<string>()

  constructor(db: Database) {
    this.#db = db
  }

  async numberOf(name: string): Promise<number> {
    const known = this.#numbers.get(name)
    if (known !== undefined) {
      this.hear(name)
      return known
    }
    const number = await registerWorker(this.#db, name)
    const [oldest] = this.#numbers.size >= namesMax ? this.#numbers.keys() : []
    if (oldest !== undefined) this.#numbers.delete(oldest)
    this.#numbers.set(name, number)
    return number
  }

  /** Forgets all numbers: after a failover, the new server may not know some of the workers. */
  forget(): void {
    this.#numbers.clear()
  }

  hear(name: string): void {
    if (this.#heard.size < namesMax) this.#heard.add(name)
  }

  /** Stores a sign of life for all workers heard of: one statement for all. */
  async tell(): Promise<void> {
    if (this.#heard.size === 0) return
    const names = [...this.#heard]
    this.#heard.clear()
    await touchWorkers(this.#db, names)
  }
}
