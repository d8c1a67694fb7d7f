import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { type Peek, peek } from './peek.ts'

/** Loops that wake at one beat are apart by less than this. */
const togetherMs = 10

/** One look at the database for all loops that want to know at the same time whether there is anything to do. */
export class SharedPeek {
  readonly #db: Database
  readonly #memoryTokens: () => readonly number[]
  #subscriptions = new Set<number>()
  #looking: Promise<Peek> | undefined

  constructor(db: Database, memoryTokens: () => readonly number[] = () => []) {
    this.#db = db
    this.#memoryTokens = memoryTokens
  }

  /** Begun after the call, so that it sees all that was there by then. */
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
