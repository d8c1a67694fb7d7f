import type { Database } from '../db/database.ts'
import { checkEventId } from '../domain/id.ts'
import { PosthornError } from '../errors.ts'
import { type Action, recordAction } from '../keys/admin-log.ts'
import * as statements from './event-statements.ts'

export interface PurgeRequest {
  readonly eventId: number
  /** Who asked and why, for the admin log. */
  readonly action: Action
}

export interface Purged {
  readonly eventId: number
  /** When the event was first purged. */
  readonly purgedAt: Date
}

/**
 * Erases the contents of a finished event: payload, title, description and attributes, in the event and in the snapshots of
 * its dead letters, and the bodies that receivers answered with. Its audit stays, and it is never delivered again. Purging
 * twice has the effect of purging once. Throws NOT_FOUND or NOT_FINISHED.
 */
export async function purge(db: Database, { eventId, action }: PurgeRequest): Promise<Purged> {
  checkEventId(eventId)
  return db.transaction(
    async (tx) => {
      // Lock first: a call that sends the event again waits, and then finds it purged.
      const events = await tx.query<Marked>(statements.lockEventToPurge(db).text, [eventId])
      const letters = await tx.query<Marked>(statements.lockLettersToPurge(db).text, [eventId])
      const event = events.rows[0]
      const marked = event ?? letters.rows.find((letter) => letter.purgedAt !== null)
      if (marked?.purgedAt != null) return { eventId, purgedAt: marked.purgedAt }
      if (event !== undefined) {
        // A statement of its own, after the locks, sees what was committed while we waited for them.
        const finished = await tx.run(statements.findFinished(db), [eventId])
        if (finished.length === 0) throw new PosthornError('NOT_FINISHED', { eventId })
      } else if (letters.rows.length === 0) {
        throw new PosthornError('NOT_FOUND', { what: 'event', id: eventId })
      }
      await recordAction(db, action, tx)
      const { rows } = await tx.query<{ purgedAt: Date }>(statements.purgeEvent(db).text, [eventId])
      return { eventId, purgedAt: (rows[0] as { purgedAt: Date }).purgedAt }
    },
    { indexPlans: true },
  )
}

/** Null: it has not been purged. */
interface Marked {
  readonly purgedAt: Date | null
}
