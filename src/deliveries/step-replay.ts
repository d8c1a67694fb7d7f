import type { Connection, Database } from '../db/database.ts'
import type { ReplayPlan } from '../domain/replay.ts'
import { toReason } from '../domain/text.ts'
import { chooseDeliveries } from './choose-deliveries.ts'
import {
  abortReplayStatement,
  advanceReplayStatement,
  noteReplayErrorStatement,
  takeReplayStatement,
} from './replay-statements.ts'
import { sendAgain } from './send-again.ts'

/** The deliveries of one step: others wait for no longer than these take. */
const deliveriesMax = 500
/** Events that one step goes through, even if the replay asks for few of them. */
const seenMax = 5_000

/**
 * Takes one replay a step further, in one transaction: if its process dies, nothing of the step is done, and any other process
 * repeats it. Returns the replay's id, or undefined if no replay can go on now. With an id only that replay may.
 */
export async function stepReplay(db: Database, id: string | null = null): Promise<string | undefined> {
  let taken: Taken | undefined
  try {
    return await db.transaction(
      async (tx) => {
        const { rows } = await tx.query<Taken>(takeReplayStatement(db).text, [id, deliveriesMax])
        taken = rows[0]
        if (taken === undefined) return undefined
        if (taken.isOrphan) await tx.run(abortReplayStatement(db), [taken.id, 'the subscription was deleted'])
        else await advance(tx, db, taken)
        return taken.id
      },
      { indexPlans: true },
    )
  } catch (error) {
    // The first error counts. If the database is gone, noting the error fails as well.
    if (taken !== undefined) {
      await db.run(noteReplayErrorStatement(db), [taken.id, toReason(error)]).catch(() => undefined)
    }
    throw error
  }
}

interface Taken {
  readonly id: string
  readonly subscription: number
  readonly kind: ReplayPlan['kind']
  readonly request: ReplayPlan['request']
  readonly reached: number
  readonly lastId: number
  readonly deliveriesMax: number
  readonly lastLetter: number | null
  readonly createdBy: string
  /** Its subscription was deleted. */
  readonly isOrphan: boolean
}

async function advance(tx: Connection, db: Database, taken: Taken): Promise<void> {
  const { id, subscription, kind, request, createdBy: by } = taken
  const plan = { kind, request } as ReplayPlan
  const { eventIds, reached } = await chooseDeliveries(tx, db, {
    ...taken,
    plan,
    after: taken.reached,
    seenMax,
  })
  const sent = await sendAgain(tx, db, { replay: id, kind, subscription, eventIds, by })
  await tx.run(advanceReplayStatement(db), [id, reached, sent.done, sent.skipped, sent.removed])
}
