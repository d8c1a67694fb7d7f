import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { type Peek, peek } from './peek.ts'

/** Loops that wake at the same beat ask within this time. */
const togetherMs = 10

/** One statement for all loops that ask at the same time whether there is anything to do. */
export class SharedPeek {
  readonly #db: Database
  readonly #memoryTokens: () => readonly number[]
  #subscriptions = new Set<number>()
  #looking: Promise<Peek> | undefined

  constructor(db: Database, memoryTokens: () => readonly number[] = () => []) {
    this.#db = db
    this.#memoryTokens = memoryTokens
  }

  /** The statement begins after the call, so it sees everything that was committed before. */
  readonly look = (subscriptions: readonly number[] = []): Promise<Peek> => {
    for (const no of subscriptions) this.#subscriptions.add(no)
    this.#looking ??= this.#lookTogether()
    return this.#looking
  }

  async #lookTogether(): Promise<Peek> {
    await delay(togetherMs)
    const subscriptions = [...this.#subscriptions]
    this.#subscriptions = new Set()
    this.#looking = undefined
    return peek(this.#db, subscriptions, this.#memoryTokens())
  }
}
