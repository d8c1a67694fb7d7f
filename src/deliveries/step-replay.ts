import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { ReplayPlan } from '../domain/replay.ts'
import { toReason } from '../domain/text.ts'
import { chooseDeliveries } from './choose-deliveries.ts'
import { type SentAgain, sendAgain } from './send-again.ts'

/** Of one step: as much as others can wait for. */
const deliveriesMax = 500
/** A stretch in which little is asked for ends here, and the next step goes on. */
const seenMax = 5_000

/**
 * Takes one replay a step further, in one transaction: a process that dies in it has done nothing, and any other goes
 * on from where it was. Undefined: there is nothing to do now. With an id only that one is looked at.
 */
export async function stepReplay(db: Database, id: string | null = null): Promise<string | undefined> {
  let taken: Taken | undefined
  try {
    return await db.transaction(
      async (tx) => {
        taken = await take(tx, db, id)
        if (taken === undefined) return undefined
        if (taken.isOrphan) await tx.run(orphanStatement(db), [taken.id])
        else await advance(tx, db, taken)
        return taken.id
      },
      { indexPlans: true },
    )
  } catch (error) {
    // What went wrong first is what counts, also where the database has gone and this fails too.
    if (taken !== undefined) {
      await db.run(troubleStatement(db), [taken.id, toReason(error)]).catch(() => undefined)
    }
    throw error
  }
}

interface Taken {
  readonly id: string
  readonly subscription: number
  readonly plan: ReplayPlan
  readonly reached: number
  readonly lastId: number
  readonly room: number
  readonly lastLetter: number | null
  readonly createdBy: string
  /** Its subscription was deleted. */
  readonly isOrphan: boolean
}

async function take(tx: Connection, db: Database, only: string | null): Promise<Taken | undefined> {
  const [row] = await tx.run<TakenRow>(takeStatement(db), [only, deliveriesMax])
  if (row === undefined) return undefined
  const [id, subscription, kind, request, reached, lastId, room, lastLetter, createdBy, isOrphan] = row
  const plan = { kind, request } as ReplayPlan
  return { id, subscription, plan, reached, lastId, room, lastLetter, createdBy, isOrphan }
}

async function advance(tx: Connection, db: Database, taken: Taken): Promise<SentAgain> {
  const { id, subscription, plan, reached: after, lastId, room, lastLetter, createdBy: by } = taken
  const { eventIds, reached } = await chooseDeliveries(tx, db, {
    ...{ plan, subscription, after, lastId, lastLetter, deliveriesMax: room, seenMax },
  })
  const sent = await sendAgain(tx, db, { replay: id, kind: plan.kind, subscription, eventIds, by })
  await tx.run(advanceStatement(db), [id, reached, sent.done, sent.skipped, sent.removed])
  return sent
}

const tokensNow = '__schema__.tokens_now(r.tokens, r.refilled_at, r.rate_per_second)'

/** One that waits for longer than any is told to wait was written before the clock was set back. */
export const isReplayDue = `(r.due_at <= __schema__.clock() or r.due_at > __schema__.clock() + interval '10 s')`

/**
 * Of each subscription only the oldest goes on, and its row is held as well: two steps at once would mix up the order of
 * its lanes, and nobody deletes it meanwhile.
 */
const takeStatement = defineStatement(
  'take_replay',
  `select r.id, r.subscription, r.kind, r.request, r.reached, r.last_id,
    case when r.rate_per_second is null then $2::int else least($2, floor(${tokensNow}))::int end,
    r.last_letter, r.created_by, s.status = 'deleted'
  from __schema__.replays r
  join __schema__.subscriptions s on s.no = r.subscription
  where r.state = 'running'
    and (r.id = $1 or $1::uuid is null)
    and ${isReplayDue}
    and (r.rate_per_second is null or ${tokensNow} >= 1 or s.status = 'deleted')
    and (s.drain_fence is null or s.status = 'deleted')   -- what drains is sent nothing new
    and not exists (
      select 1 from __schema__.replays o
      where o.subscription = r.subscription and o.state = 'running' and o.id < r.id)
  order by r.due_at, r.id
  limit 1
  for no key update of r, s skip locked`,
)

const advanceStatement = defineStatement(
  'advance_replay',
  `update __schema__.replays r
  set reached = $2, done = r.done + $3, skipped = r.skipped + $4, removed = r.removed + $5,
    tokens = coalesce(${tokensNow} - $3, 0), refilled_at = __schema__.clock(), due_at = __schema__.clock(),
    state = case when $2::bigint >= r.last_id then 'completed' else 'running' end,
    finished_at = case when $2 >= r.last_id then __schema__.clock() end,
    last_error = null
  where r.id = $1`,
)

const orphanStatement = defineStatement(
  'abort_orphaned_replay',
  `update __schema__.replays r
  set state = 'aborted', finished_at = __schema__.clock(), reason = 'the subscription was deleted'
  where r.id = $1`,
)

/** It stays to be tried again, after the others. */
const troubleStatement = defineStatement(
  'note_replay_trouble',
  `update __schema__.replays r
  set last_error = $2, due_at = __schema__.clock() + interval '5 s'
  where r.id = $1 and r.state = 'running'`,
)

type TakenRow = [
  id: string,
  subscription: number,
  kind: ReplayPlan['kind'],
  request: ReplayPlan['request'],
  reached: number,
  lastId: number,
  room: number,
  lastLetter: number | null,
  createdBy: string,
  isOrphan: boolean,
]
