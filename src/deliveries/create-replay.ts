import { createHash } from 'node:crypto'
import type { Connection, Database } from '../db/database.ts'
import { canonicalText, type ReplayPlan } from '../domain/replay.ts'
import { PosthornError } from '../errors.ts'
import { countReplay } from './count-replay.ts'
import { createReplayStatement, findIdenticalReplayStatement } from './replay-statements.ts'

export interface NewReplay {
  readonly plan: ReplayPlan
  readonly subscription: number
  readonly by: string
  /** What an identical request means: the existing replay, or another one. */
  readonly identical: 'same' | 'again'
}

export interface CreatedReplay {
  readonly id: string
  /** False: an identical replay is running, or has completed in the last ten minutes. */
  readonly isNew: boolean
}

/** Throws NOT_FOUND if the subscription is deleted meanwhile. Nothing is sent yet. */
export async function createReplay(db: Database, request: NewReplay): Promise<CreatedReplay> {
  const { plan, subscription, by, identical } = request
  const fingerprint = createHash('sha256').update(canonicalText(plan.request)).digest()
  return db.transaction(
    async (tx) => {
      await lockIdentical(tx, db, `${subscription} ${plan.kind} ${fingerprint.toString('hex')}`)
      if (identical === 'same') {
        const [found] = await tx.run<[id: string]>(findIdenticalReplayStatement(db), [
          subscription,
          plan.kind,
          fingerprint,
        ])
        if (found !== undefined) return { id: found[0], isNew: false }
      }
      const { total, totalIsEstimate, after, lastId, removed, oldestKeptAt } = await countReplay(tx, db, {
        plan,
        subscription,
      })
      const [created] = await tx.run<[id: string]>(createReplayStatement(db), [
        subscription,
        plan.kind,
        JSON.stringify(plan.request),
        fingerprint,
        total,
        totalIsEstimate,
        after,
        lastId,
        // A recovery counts removed events as it meets their dead letters.
        plan.kind === 'replay' ? removed : 0,
        oldestKeptAt,
        plan.request.rate_per_second,
        by,
      ])
      if (created !== undefined) return { id: created[0], isNew: true }
      throw new PosthornError('NOT_FOUND', { what: 'subscription', id: subscription })
    },
    { indexPlans: true },
  )
}

/** The lock lasts until the transaction ends, so that of many identical requests only one creates a replay. */
async function lockIdentical(tx: Connection, db: Database, what: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 7004))', [`${db.schema} ${what}`])
}
