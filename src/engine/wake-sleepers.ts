import { type Database, defineStatement } from '../db/database.ts'

/** Something that waits and that nothing would ever have woken. */
export interface Sleeper {
  readonly kind: 'lane' | 'gate' | 'queue'
  /** The subscription's name. */
  readonly name: string
  /** The ordering key of a lane, the concurrency key of a gate. */
  readonly key: string | null
}

/** Where the walk over lanes, or over gates, goes on; null: at the beginning. */
export type WalkPlace = readonly [subscription: number, key: string] | null

export interface WakeRequest {
  readonly lanesAfter: WalkPlace
  readonly gatesAfter: WalkPlace
}

export interface Woken {
  readonly sleepers: readonly Sleeper[]
  /** Null: all were looked at. */
  readonly lanesAfter: WalkPlace
  readonly gatesAfter: WalkPlace
}

/** How many lanes, and gates, one step looks at. */
const walkMax = 1_000
/** With more rows than this at the door, nobody can tell cheaply whose note is among them. */
const inboxMax = 20_000

/**
 * Looks for lanes with something waiting and no run out, for gates with room and runs that wait for it, and for held runs
 * of queues that no admission asks about: each without the note by which an admission would find it. Leaves that note.
 *
 * Nobody should ever need this. Whoever frees a lane or a gate leaves a note in the same transaction, so in every snapshot
 * either something is out or the note is there; a statement that forgets it is a defect, which this mends and reports.
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
  const rows = await db.once<WakeRow>(wakeStatement(db), values, { indexPlans: true })
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

/** One statement sees one moment: what it finds asleep is asleep. The rows `lanes` and `gates` say where a full step ended. */
const wakeStatement = defineStatement(
  'wake_sleepers',
  `with recursive lane as (
    (select q.subscription, q.ordering_key, 1 as place
     from __schema__.lane_queue q
     where (q.subscription, q.ordering_key) > ($1::int, $2::text)
     order by q.subscription, q.ordering_key
     limit 1)
    union all
    select n.subscription, n.ordering_key, l.place + 1
    from lane l
    cross join lateral (
      select q.subscription, q.ordering_key
      from __schema__.lane_queue q
      where (q.subscription, q.ordering_key) > (l.subscription, l.ordering_key)
      order by q.subscription, q.ordering_key
      limit 1
    ) as n
    where l.place < $5::int
  ),
  gate as (
    (select r.subscription, r.concurrency_key, 1 as place
     from __schema__.runs r
     where r.state = 'gated' and (r.subscription, r.concurrency_key) > ($3::int, $4::text)
     order by r.subscription, r.concurrency_key
     limit 1)
    union all
    select n.subscription, n.concurrency_key, g.place + 1
    from gate g
    cross join lateral (
      select r.subscription, r.concurrency_key
      from __schema__.runs r
      where r.state = 'gated' and (r.subscription, r.concurrency_key) > (g.subscription, g.concurrency_key)
      order by r.subscription, r.concurrency_key
      limit 1
    ) as n
    where g.place < $5
  ),
  idle_lane as materialized (
    select l.subscription, l.ordering_key
    from lane l
    where not exists (
      select 1 from __schema__.runs r
      where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state not in ('delayed', 'held'))
  ),
  roomy_gate as materialized (
    select g.subscription, g.concurrency_key
    from gate g
    join __schema__.subscriptions s on s.no = g.subscription
    where coalesce(s.key_concurrency, 1000000) > (
      select count(*) from __schema__.runs r
      where r.subscription = g.subscription and r.concurrency_key = g.concurrency_key and r.state in ('ready', 'leased'))
  ),
  forgotten_queue as materialized (
    select s.no as subscription
    from __schema__.subscriptions s
    where exists (select 1 from __schema__.runs r where r.subscription = s.no and r.state = 'held')
      and not exists (select 1 from __schema__.holding_queues h where h.subscription = s.no)
  ),
  note as materialized (
    select i.subscription, u.ordering_key, u.concurrency_key
    from __schema__.inbox i
    cross join lateral unnest(i.ordering_keys, i.concurrency_keys) as u(ordering_key, concurrency_key)
    where exists (select 1 from idle_lane) or exists (select 1 from roomy_gate)
  ),
  sleeper as materialized (
    select 'lane' as kind, l.subscription, l.ordering_key as key
    from idle_lane l
    where (l.subscription, l.ordering_key) not in (
      select n.subscription, n.ordering_key from note n where n.ordering_key is not null)
    union all
    select 'gate', g.subscription, g.concurrency_key
    from roomy_gate g
    where (g.subscription, g.concurrency_key) not in (
      select n.subscription, n.concurrency_key from note n where n.concurrency_key is not null)
    union all
    select 'queue', f.subscription, null from forgotten_queue f
  ),
  known as materialized (
    select s.kind, s.subscription, s.key
    from sleeper s
    where (select count(*) from (select 1 from __schema__.inbox limit $6::int + 1) as i) <= $6
  ),
  noted as (
    insert into __schema__.inbox (subscription, ordering_keys, concurrency_keys)
    select k.subscription, array_agg(case when k.kind = 'lane' then k.key end),
      array_agg(case when k.kind = 'gate' then k.key end)
    from known k
    where k.kind <> 'queue'
    group by k.subscription
  ),
  holding as (
    insert into __schema__.holding_queues (subscription)
    select k.subscription from known k where k.kind = 'queue'
    on conflict do nothing
  )
  select k.kind, k.subscription, s.name, k.key from known k join __schema__.subscriptions s on s.no = k.subscription
  union all
  (select 'lanes', l.subscription, null, l.ordering_key from lane l where l.place = $5)
  union all
  (select 'gates', g.subscription, null, g.concurrency_key from gate g where g.place = $5)`,
)

type WakeRow = [
  kind: Sleeper['kind'] | 'lanes' | 'gates',
  subscription: number,
  name: string | null,
  key: string | null,
]
