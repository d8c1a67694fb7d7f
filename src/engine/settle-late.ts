import { type Database, defineStatement } from '../db/database.ts'
import { type SettleRequest, settle } from './settle.ts'

export type LateAnswer =
  /** It counts: nobody else had leased it, or it is the repeat of what was settled before. */
  | 'settled'
  /** The same attempt was settled before, with another outcome. */
  | 'settled otherwise'
  | 'lost'

export interface LateSettle {
  readonly subscription: number
  readonly request: SettleRequest
}

/**
 * Settles what `settle` did not find under its lease. After a reclaim the delivery may stand in another run,
 * which still has the token: then it counts. A repeat of the same settlement gives the first answer.
 */
export async function settleLate(db: Database, { subscription, request }: LateSettle): Promise<LateAnswer> {
  const { eventId, token, settlement } = request
  const [earlier] = await db.run<[settlement: string]>(findSettled(db), [eventId, subscription, token])
  if (earlier !== undefined) return earlier[0] === settlement ? 'settled' : 'settled otherwise'

  const [moved] = await db.run<[runId: number]>(findReclaimed(db), [subscription, eventId, token])
  if (moved === undefined) return 'lost'
  const rejected = await settle(db, [{ ...request, runId: moved[0] }])
  return rejected.length === 0 ? 'settled' : 'lost'
}

/**
 * For a runner, which moves a delivery into a run of its own (`isolate`) and may not get the answer: settles it there.
 * Without this the attempt would count for nothing, as the run is then one that nobody knows of.
 */
export async function settleIsolated(
  db: Database,
  { subscription, request }: LateSettle,
): Promise<'settled' | 'lost'> {
  const { eventId, token } = request
  const [isolated] = await db.run<[runId: number]>(findIsolated(db), [subscription, eventId, token])
  if (isolated === undefined) return 'lost'
  const rejected = await settle(db, [{ ...request, runId: isolated[0] }])
  return rejected.length === 0 ? 'settled' : 'lost'
}

/** What a reclaim or an operator recorded of the attempt is not the worker's settlement. */
const findSettled = defineStatement(
  'find_settled',
  `select a.settlement
  from __schema__.audit a
  where a.event_id = $1 and a.subscription = $2 and a.token = $3
    and a.settlement not in ('lease_expired', 'reset', 'released')
    and a.cause is distinct from 'lease_expired'
  order by a.id desc
  limit 1`,
)

const findReclaimed = defineStatement(
  'find_reclaimed',
  `select r.id
  from __schema__.runs r
  where r.subscription = $1 and r.state = 'ready' and r.first_id = $2 and r.token = $3`,
)

const findIsolated = defineStatement(
  'find_isolated',
  `select r.id
  from __schema__.runs r
  where r.subscription = $1 and r.state = 'leased' and r.first_id = $2 and r.token = $3`,
)
