import { type Connection, defineStatement } from '../db/database.ts'

/** SQL: a worker was seen in what is now the future. What was said then to last for a while would last longer by the step. */
export const wasClockSetBack = `exists (
        select 1 from __schema__.workers w where w.seen_at > __schema__.clock() + interval '1 s')`

/**
 * After the clock was set back: leases, retries and ended replays from before it last no longer from now on than they were given, and
 * a handler that is gone or an endpoint that is suspended has been so since now. What was asked for at a time (a delay, an expiry)
 * keeps that time.
 */
export async function shortenWaits(tx: Connection, db: { readonly schema: string }): Promise<void> {
  const [row] = await tx.run<[wasSetBack: boolean]>(askStatement(db), [])
  if (row?.[0]) await tx.run(shortenStatement(db), [rowsMax])
}

const rowsMax = 1_000

const askStatement = defineStatement('was_clock_set_back', `select ${wasClockSetBack}`)

/**
 * A lease was given what its run says, a retry what its record says. A replay that ended in the future has ended now: it
 * stands for identical calls for a while. Each wait is shortened once, since the shortened one is no longer too long. What is locked, or beyond the limit, comes with the next call: the workers tell of
 * the step until nothing is left. They are locked by their numbers, as whoever tells that several live locks them.
 */
const shortenStatement = defineStatement(
  'shorten_waits',
  `with lasting as materialized (
    select r.id, r.lease_ms * interval '1 ms' as given
    from __schema__.runs r
    where r.state = 'leased' and r.leased_until > __schema__.clock() + r.lease_ms * interval '1 ms'
    limit $1
  ),
  waiting as materialized (
    select r.id, a.next_at - a.finished_at as given
    from __schema__.runs r
    cross join lateral (
      select a.next_at, a.finished_at from __schema__.audit a
      where a.event_id = r.event_ids[1] and a.subscription = r.subscription
      order by a.id desc
      limit 1
    ) as a
    where r.state = 'deferred' and r.attempts > 0 and r.due_at > __schema__.clock() + (a.next_at - a.finished_at)
    limit $1
  ),
  unlocked as materialized (
    select r.id, r.state
    from __schema__.runs r
    where r.id = any(array(select l.id from lasting l union all select w.id from waiting w))
      and r.state in ('leased', 'deferred')
    order by r.id
    for update skip locked
  ),
  leases as (
    update __schema__.runs r
    set leased_until = __schema__.clock() + l.given, leased_at = least(r.leased_at, __schema__.clock())
    from lasting l
    join unlocked u on u.id = l.id
    where r.id = l.id and r.state = 'leased'
  ),
  retries as (
    update __schema__.runs r
    set due_at = __schema__.clock() + w.given
    from waiting w
    join unlocked u on u.id = w.id
    where r.id = w.id and r.state = 'deferred'
  ),
  ended as (
    update __schema__.replays r
    set finished_at = __schema__.clock()
    where r.finished_at > __schema__.clock() + interval '1 s'
  ),
  handlers as materialized (
    select s.no
    from __schema__.subscriptions s
    where s.handler_seen_at > __schema__.clock() + interval '1 s'
    for no key update skip locked
  ),
  seen as (
    update __schema__.subscriptions s
    set handler_seen_at = __schema__.clock()
    from handlers h
    where s.no = h.no
  ),
  endpoints as materialized (
    select e.subscription
    from __schema__.endpoints e
    where e.suspended_at > __schema__.clock() + interval '1 s'
    for no key update skip locked
  ),
  suspended as (
    update __schema__.endpoints e
    set suspended_at = __schema__.clock()
    from endpoints s
    where e.subscription = s.subscription
  ),
  counted as (
    select (select count(*) from lasting) as lasting, (select count(*) from waiting) as waiting,
      (select count(*) from unlocked) as unlocked,
      (select count(*) from __schema__.subscriptions s where s.handler_seen_at > __schema__.clock() + interval '1 s')
        - (select count(*) from handlers) as handlers_left,
      (select count(*) from __schema__.endpoints e where e.suspended_at > __schema__.clock() + interval '1 s')
        - (select count(*) from endpoints) as endpoints_left
  ),
  ahead as materialized (
    select w.no
    from __schema__.workers w
    cross join counted c
    where w.seen_at > __schema__.clock() + interval '1 s'
      and c.unlocked = c.lasting + c.waiting and c.lasting < $1 and c.waiting < $1
      and c.handlers_left = 0 and c.endpoints_left = 0
    order by w.no
    for update of w
  )
  update __schema__.workers w
  set seen_at = __schema__.clock()
  from ahead a
  where w.no = a.no`,
)
