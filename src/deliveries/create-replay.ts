import { createHash } from 'node:crypto'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { canonicalText, type ReplayPlan } from '../domain/replay.ts'
import { PosthornError } from '../errors.ts'
import { countReplay } from './count-replay.ts'

export interface NewReplay {
  readonly plan: ReplayPlan
  readonly subscription: number
  readonly by: string
  /** What an identical call means: the replay there is, or one more. */
  readonly identical: 'same' | 'again'
}

export interface CreatedReplay {
  readonly id: string
  /** False: somebody has asked for the same, and it runs or has completed in the last ten minutes. */
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
        const [found] = await tx.run<[id: string]>(findStatement(db), [subscription, plan.kind, fingerprint])
        if (found !== undefined) return { id: found[0], isNew: false }
      }
      const { total, totalIsEstimate, after, lastId, removed, oldestKeptAt } = await countReplay(tx, db, {
        plan,
        subscription,
      })
      const [created] = await tx.run<[id: string]>(insertStatement(db), [
        ...[subscription, plan.kind, JSON.stringify(plan.request), fingerprint],
        ...[total, totalIsEstimate, after, lastId],
        // Of dead letters it is counted as they are met.
        ...[plan.kind === 'replay' ? removed : 0, oldestKeptAt, plan.request.rate_per_second, by],
      ])
      if (created !== undefined) return { id: created[0], isNew: true }
      throw new PosthornError('NOT_FOUND', { what: 'subscription', id: subscription })
    },
    { indexPlans: true },
  )
}

/** Held to the end of the transaction, so that of many callers who ask for the same only one finds nothing. */
async function lockIdentical(tx: Connection, db: Database, what: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 7004))', [`${db.schema} ${what}`])
}

const findStatement = defineStatement(
  'find_identical_replay',
  `select r.id
  from __schema__.replays r
  where r.subscription = $1 and r.kind = $2 and r.fingerprint = $3
    and (r.state = 'running'
      or (r.state = 'completed' and r.finished_at > __schema__.clock() - interval '10 min'))
  order by r.id desc
  limit 1`,
)

const insertStatement = defineStatement(
  'create_replay',
  `insert into __schema__.replays (id, subscription, kind, request, fingerprint, total, total_is_estimate, reached, last_id, last_letter,
    removed, oldest_kept_at, rate_per_second, tokens, refilled_at, due_at, created_at, created_by)
  select __schema__.uuid_v7(), s.no, $2, $3::json, $4, $5, $6, $7, $8,
    case when $2 = 'recover' then pg_sequence_last_value('__schema__.dead_letters_no_seq'::regclass) end, $9, $10, $11::float8,
    greatest($11, 1), __schema__.clock(), __schema__.clock(), __schema__.clock(), $12
  from __schema__.subscriptions s
  where s.no = $1 and s.status <> 'deleted'
  returning id`,
)
