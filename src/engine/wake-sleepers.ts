import type { Database } from '../db/database.ts'
import { wakeSleepersStatement } from './upkeep-statements.ts'

/** A lane, gate or queue that waited although it had room, without the note by which admit would find it. */
export interface Sleeper {
  readonly kind: 'lane' | 'gate' | 'queue'
  /** The subscription's name. */
  readonly name: string
  /** The ordering key of a lane, the concurrency key of a gate. */
  readonly key: string | null
}

/** Where the walk over lanes, or over gates, continues; null: at the beginning. */
export type WalkPlace = readonly [subscription: number, key: string] | null

export interface WakeRequest {
  readonly lanesAfter: WalkPlace
  readonly gatesAfter: WalkPlace
}

export interface Woken {
  readonly sleepers: readonly Sleeper[]
  /** Null: the walk is complete. */
  readonly lanesAfter: WalkPlace
  readonly gatesAfter: WalkPlace
}

/** Lanes, and gates, per step. */
const walkMax = 1_000
/** With more rows than this in the inbox it takes too long to see which notes are among them. */
const inboxMax = 20_000

/**
 * Finds lanes with waiting deliveries and no run, gates with room and runs that wait for it, and held runs of queues that
 * admit does not know to hold any: each without the note by which admit would find it. Writes that note.
 *
 * This should never find anything. Every statement that frees a lane or a gate leaves a note in the same transaction, so every
 * snapshot sees either a run or the note. A statement that forgets the note is a defect, which this repairs and reports.
 */
export async function wakeSleepers(db: Database, { lanesAfter, gatesAfter }: WakeRequest): Promise<Woken> {
  const values = [
    lanesAfter?.[0] ?? -1,
    lanesAfter?.[1] ?? '',
    gatesAfter?.[0] ?? -1,
    gatesAfter?.[1] ?? '',
    walkMax,
    inboxMax,
  ]
  const rows = await db.once<WakeRow>(wakeSleepersStatement(db), values, { indexPlans: true })
  const placeOf = (walk: 'lanes' | 'gates'): WalkPlace => {
    const row = rows.find(([kind]) => kind === walk)
    return row === undefined ? null : [row[1] as number, row[3] as string]
  }
  return {
    sleepers: rows.flatMap(([kind, , name, key]) =>
      kind === 'lanes' || kind === 'gates' ? [] : [{ kind, name: name as string, key }],
    ),
    lanesAfter: placeOf('lanes'),
    gatesAfter: placeOf('gates'),
  }
}

const start: WakeRequest = { lanesAfter: null, gatesAfter: null }

/** Goes through all lanes and gates, step by step, again and again. */
export class SleeperWatch {
  readonly #db: Database
  readonly #woken: (sleepers: readonly Sleeper[]) => void
  #place = start

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

type WakeRow = [
  kind: Sleeper['kind'] | 'lanes' | 'gates',
  subscription: number,
  name: string | null,
  key: string | null,
]
