import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import type { SubscriptionStatus } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'

export interface DrawRequest {
  /** How many ids. */
  readonly events: number
  /** Types whose routes are asked for. */
  readonly types: readonly string[]
  /** The queues in this process's memory. */
  readonly queues: readonly { readonly no: number; readonly token: number }[]
  /** Ordering keys to ask about. */
  readonly keys: readonly string[]
}

export interface Draw {
  /** Counts what changes who is owed what. */
  readonly version: number
  readonly nowMs: number
  /** In order, and after every id that was drawn before. */
  readonly ids: readonly number[]
  readonly routes: ReadonlyMap<string, MemoryRoute>
  /** The queues that this process still has; `deleted`: the queue is no longer to be kept in memory. */
  readonly held: ReadonlyMap<number, SubscriptionStatus>
  /** Lanes of these queues that have something in the durable tables. */
  readonly busyLanes: ReadonlySet<string>
}

/** Where a type goes. */
export interface MemoryRoute {
  readonly owed: readonly number[]
  /** A subscription has a filter on the payload, or takes its key from there: each event has to be routed by itself. */
  readonly inspectsPayload: boolean
  /** Its events expire. */
  readonly ages: boolean
}

export function laneName(subscription: number, key: string): string {
  return `${subscription} ${key}`
}

/** One statement for all publishes that wait: it sees everything that was committed before. */
export async function drawMemory(db: Database, request: DrawRequest): Promise<Draw> {
  const { events, types, queues, keys } = request
  const values = [
    events,
    textArray(types),
    numberArray(queues.map(({ no }) => no)),
    numberArray(queues.map(({ token }) => token)),
    keys.length === 0 ? null : textArray(keys),
  ]
  const [row] = await db.run<DrawRow>(drawStatement(db), values).catch(withoutDoubt)
  const [version, nowMs, ids, routes, held, busy] = row as DrawRow
  return {
    version,
    nowMs,
    ids: ids === null ? [] : ids.split(',').map(Number),
    routes: new Map(
      routes?.map(([type, owed, inspectsPayload, ages]) => [type, { owed, inspectsPayload, ages }]),
    ),
    held: new Map(held),
    busyLanes: new Set(busy?.map(([no, key]) => laneName(no, key))),
  }
}

/** Nothing is stored, so it does not matter whether ids were drawn: the caller may try again. */
function withoutDoubt(error: unknown): never {
  const isDoubt = error instanceof PosthornError && error.code === 'COMMIT_UNKNOWN'
  throw isDoubt ? new PosthornError('DATABASE_UNAVAILABLE', { reason: 'the connection broke' }) : error
}

type DrawRow = [
  version: number,
  nowMs: number,
  ids: string | null,
  routes: [type: string, owed: number[], inspectsPayload: boolean, ages: boolean][] | null,
  held: [no: number, status: SubscriptionStatus][] | null,
  busy: [no: number, key: string][] | null,
]

/** Ids are drawn one by one and by this very statement: what was stored before has lower ones, in every lane. */
const drawStatement = defineStatement(
  'draw_memory',
  `with here as materialized (
    select q.subscription as no, case when s.storage = 'memory' then s.status else 'deleted' end as status
    from unnest($3::int[], $4::bigint[]) as h(no, token)
    join __schema__.memory_queues q on q.subscription = h.no and q.token = h.token
    join __schema__.subscriptions s on s.no = q.subscription
  )
  select r.version, date_part('epoch', __schema__.clock()) * 1000,
    case when $1::int > 0 then array_to_string(__schema__.draw_event_ids($1, __schema__.clock()), ',') end,
    (select json_agg(json_build_array(t.type, o.owed, o.inspects, coalesce(y.max_age_ms is not null, false)))
     from unnest($2::text[]) as t(type)
     cross join lateral __schema__.route(t.type, null) as o
     left join __schema__.event_types y on y.type = t.type),
    (select json_agg(json_build_array(h.no, h.status)) from here h),
    case when $5::text[] is not null then (
      select json_agg(json_build_array(b.subscription, b.ordering_key)) from (
        select u.subscription, u.ordering_key
        from __schema__.runs u
        where u.subscription = any($3) and u.ordering_key = any($5) and u.state not in ('delayed', 'held')
        union
        -- what a drain held enters its lane only now
        select u.subscription, u.ordering_key
        from __schema__.holding_queues h
        join __schema__.runs u on u.subscription = h.subscription and u.state = 'held'
        where h.subscription = any($3) and u.ordering_key = any($5)
        union
        select l.subscription, l.ordering_key
        from __schema__.lane_queue l
        where l.subscription = any($3) and l.ordering_key = any($5)
        union
        select i.subscription, k.ordering_key
        from __schema__.inbox i
        cross join lateral unnest(i.ordering_keys) as k(ordering_key)
        where i.subscription = any($3) and i.event_ids is not null and k.ordering_key = any($5)
      ) as b) end
  from __schema__.routing r`,
)
