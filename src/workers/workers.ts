import { badOption, checkPaging, type Paging, pagingOptions } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { textArray } from '../db/array.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { followPromotion } from '../engine/promotions.ts'

export interface Worker {
  readonly name: string
  readonly seenAt: Date
  /** Deliveries it is attempting now. */
  readonly inFlight: number
  /** Not heard of for 30 s, or it let a lease lapse. */
  readonly stale: boolean
  /** What came first of the two, and when that was; null: it is not stale. */
  readonly staleReason: StaleReason | null
  readonly staleSince: Date | null
}

export type StaleReason = 'silent' | 'lapsed_lease'
export type WorkerState = 'alive' | 'stale'

export interface WorkerFilter extends Paging {
  readonly state?: WorkerState
}

type Reader = Connection & { readonly schema: string }

/** The number that leases and audit records know a worker by. Calling it again says that the worker lives. */
export async function registerWorker(db: Reader, name: string): Promise<number> {
  const [known] = await db.run<[no: number]>(touchStatement(db), [name])
  if (known !== undefined) return known[0]
  await followPromotion(db, db)
  const [added] = await db.run<[no: number]>(registerStatement(db), [name])
  return (added as [number])[0]
}

/** The same number, remembered. */
export interface RememberedWorker {
  /** Asked for when it is first needed. */
  number(): Promise<number>
  /** Says that the worker lives. A failover may have forgotten its number: then it gets another. */
  register(): Promise<number>
}

export function rememberWorker(db: Reader, name: string): RememberedWorker {
  let known: number | undefined
  let first: Promise<number> | undefined
  const register = async () => {
    known = await registerWorker(db, name)
    return known
  }
  const number = async () => {
    if (known !== undefined) return known
    first ??= register().finally(() => {
      first = undefined
    })
    return first
  }
  return { number, register }
}

/** Says that a worker lives. Returns whether it is known at all. */
export async function touchWorker(db: Reader, name: string): Promise<boolean> {
  const rows = await db.run<[no: number]>(touchStatement(db), [name])
  return rows.length > 0
}

/** The same of many. Those that are not known stay so. */
export async function touchWorkers(db: Reader, names: readonly string[]): Promise<void> {
  await db.run(touchManyStatement(db), [textArray(names)])
}

/** Every worker id seen, the latest first. */
export async function listWorkers(db: Database): Promise<Worker[]> {
  const rows = await db.run<WorkerRow>(listStatement(db), [workersMax])
  return rows.map(workerFromRow)
}

const workersMax = 10_000

export interface WorkerPage {
  readonly workers: readonly Worker[]
  readonly total: number
  readonly nextCursor: string | null
}

/** In the order in which they were first seen: that in which they were last seen changes between two pages. */
export async function listWorkerPage(db: Database, filter: WorkerFilter = {}): Promise<WorkerPage> {
  checkOptions(filter, { ...pagingOptions, state: true }, 'a list of workers')
  const { limit, offset, after, order, cursorAt } = checkPaging('workers', filter, noForm)
  const { state = null } = filter
  if (state !== null && state !== 'alive' && state !== 'stale')
    throw badOption('state', 'alive or stale', state)
  return readAtOnce(db, async (reader) => {
    const [counted] = await reader.run<[total: number]>(countStatement(db), [state])
    const start = after === null ? beforeAll[order] : Number(after)
    const rows = await reader.run<WorkerRow>(pageStatements[order](db), [state, start, limit + 1, offset])
    const shown = rows.slice(0, limit)
    const last = shown.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last[5]) : null
    return { workers: shown.map(workerFromRow), total: counted?.[0] ?? 0, nextCursor }
  })
}

/**
 * How many there are of each. Every start of a process brings a new name, so one that has been silent for ten minutes
 * and holds nothing has gone, and is not counted.
 */
export async function countWorkers(reader: Reader): Promise<Readonly<Record<WorkerState, number>>> {
  const [row] = await reader.run<[alive: number, stale: number]>(countStatesStatement(reader), [])
  const [alive, stale] = row as [number, number]
  return { alive, stale }
}

const noForm = /^\d{1,10}$/
const beforeAll = { asc: -1, desc: Number.MAX_SAFE_INTEGER }

/** Never back: a worker that was seen in the future is how one learns that the clock was set back. */
const seenNow = 'seen_at = greatest(seen_at, __schema__.clock())'

/** Tried first: `on conflict` draws a number from the sequence even where it then only updates. */
const touchStatement = defineStatement(
  'touch_worker',
  `update __schema__.workers set ${seenNow} where name = $1 returning no`,
)

/** Sorted, so that two processes which were told of the same workers never wait for each other in a circle. */
const touchManyStatement = defineStatement(
  'touch_workers',
  `with living as materialized (
    select w.no from __schema__.workers w where w.name = any($1::text[]) order by w.no for update
  )
  update __schema__.workers w set ${seenNow} from living l where w.no = l.no`,
)

const registerStatement = defineStatement(
  'register_worker',
  `insert into __schema__.workers as w (name, seen_at)
  values ($1, __schema__.clock())
  on conflict (name) do update set seen_at = greatest(w.seen_at, excluded.seen_at)
  returning no`,
)

/** `stale_since` is null of those that are alive. */
const judged = `with holding as materialized (
    select r.worker, min(r.leased_until) as first_end from __schema__.runs r where r.state = 'leased' group by r.worker
  ),
  judged as (
    select w.no, w.name, w.seen_at, h.worker is not null as holds, g.silent_since, l.lapsed_since,
      least(g.silent_since, l.lapsed_since) as stale_since
    from __schema__.workers w
    left join holding h on h.worker = w.no
    cross join lateral (
      select case when w.seen_at < __schema__.clock() - interval '30 s' then w.seen_at + interval '30 s' end as silent_since
    ) as g
    cross join lateral (select case when h.first_end < __schema__.clock() then h.first_end end as lapsed_since) as l
  )`

/** What was granted but has not begun is owned, not in flight. */
const select = `${judged},
  attempting as materialized (
    select f.worker, count(*)::int as deliveries from __schema__.in_flight f group by f.worker
  )
  select j.name, j.seen_at, coalesce(a.deliveries, 0),
    case j.stale_since when j.lapsed_since then 'lapsed_lease' when j.silent_since then 'silent' end, j.stale_since, j.no
  from judged j
  left join attempting a on a.worker = j.no`

const listStatement = defineStatement(
  'list_workers',
  `${select}
  order by j.seen_at desc, j.name
  limit $1`,
)

const inState = `($1::text is null or ($1 = 'stale') = (j.stale_since is not null))`

const pageStatements = {
  asc: defineStatement(
    'list_worker_page',
    `${select}
  where ${inState} and j.no > $2::bigint
  order by j.no
  limit $3 offset $4`,
  ),
  desc: defineStatement(
    'list_worker_page_desc',
    `${select}
  where ${inState} and j.no < $2::bigint
  order by j.no desc
  limit $3 offset $4`,
  ),
}

const countStatement = defineStatement(
  'count_workers',
  `${judged}
  select count(*)::int from judged j where ${inState}`,
)

const countStatesStatement = defineStatement(
  'count_worker_states',
  `${judged}
  select count(*) filter (where j.stale_since is null)::int,
    count(*) filter (
      where j.stale_since is not null and (j.holds or j.seen_at > __schema__.clock() - interval '10 min'))::int
  from judged j`,
)

type WorkerRow = [
  name: string,
  seenAt: Date,
  inFlight: number,
  staleReason: StaleReason | null,
  staleSince: Date | null,
  no: number,
]

function workerFromRow([name, seenAt, inFlight, staleReason, staleSince]: WorkerRow): Worker {
  return { name, seenAt, inFlight, stale: staleReason !== null, staleReason, staleSince }
}
