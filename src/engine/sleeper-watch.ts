import type { Database } from '../db/database.ts'
import { type Sleeper, type WakeRequest, wakeSleepers } from './wake-sleepers.ts'

const atTheBeginning: WakeRequest = { lanesAfter: null, gatesAfter: null }

/** Goes round all lanes and gates, step by step, and wakes those that nothing else would wake. */
export class SleeperWatch {
  readonly #db: Database
  readonly #woken: (sleepers: readonly Sleeper[]) => void
  #place = atTheBeginning

  constructor(db: Database, woken: (sleepers: readonly Sleeper[]) => void) {
    this.#db = db
    this.#woken = woken
  }

  /** One step; true while the round is not complete. */
  async look(): Promise<boolean> {
    const { sleepers, lanesAfter, gatesAfter } = await wakeSleepers(this.#db, this.#place)
    if (sleepers.length > 0) this.#woken(sleepers)
    this.#place = { lanesAfter, gatesAfter }
    return lanesAfter !== null || gatesAfter !== null
  }
}
