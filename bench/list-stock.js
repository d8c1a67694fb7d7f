/** A million events as publishing and settling would have left them, written by SQL because that takes a minute. */

export const stockCount = 1_000_000

/** Of each stock 18 % wait: a tenth of them is owed twice, so that 198,000 deliveries are open. 5 % of the finished ones failed. */
export const layouts = [
  {
    name: 'finished first, then waiting in runs of 200 and in lanes',
    finished: `id <= ${0.82 * stockCount}`,
    waiting: 'runs',
    runSpan: 200,
  },
  {
    name: 'waiting first, each retried once and alone, then finished',
    finished: `id > ${0.18 * stockCount}`,
    waiting: 'alone',
  },
  {
    name: 'waiting here and there, in runs of 200 and in lanes',
    finished: 'id % 50 not between 20 and 28',
    waiting: 'runs',
    runSpan: 1000,
  },
]

export async function fillStock(db, { finished, waiting, runSpan }) {
  const run = (text) => db.query(text.replaceAll('posthorn.', `${db.schema}.`))
  await run(subscriptions)
  await run(events)
  await run(`${outcomes} where ${finished} order by id`)
  await run(deadLetters)
  for (const text of waiting === 'runs' ? waitingInRuns : waitingAlone)
    await run(text.replaceAll('unfinished', `not (${finished})`).replaceAll('run_span', String(runSpan)))
  await run(leases)
  for (const table of ['events', 'audit', 'runs', 'lane_queue', 'dead_letters'])
    await run(`vacuum analyze posthorn.${table}`)
}

/** So many more deliveries are attempted now, in whole runs. */
export async function leaseMany(db, deliveries) {
  await db.query(
    `update posthorn.runs
    set state = 'leased', token = 2, worker = 1, granted = cardinality(event_ids), begun = event_ids,
      leased_at = posthorn.clock(), leased_until = posthorn.clock() + interval '1 day'
    where id in (
      select id
      from (
        select id, sum(cardinality(event_ids)) over (order by id) as upto from posthorn.runs where state = 'ready'
      ) as r
      where upto <= $1
    )`.replaceAll('posthorn.', `${db.schema}.`),
    [deliveries],
  )
  await db.query(`vacuum analyze ${db.schema}.runs`)
}

const subscriptions = `
  insert into posthorn.subscriptions (id, name, via, retry, lease_ms)
  select posthorn.uuid_v7(), name, 'handler', '{"kind": "fixed", "delayMs": 1000, "failuresMax": 5}', 30000
  from unnest(array['orders', 'rest', 'rare']) as name`

/**
 * A tenth is owed twice, one in 10,000 to the third subscription, a quarter has an ordering key, a fifth a common tag. Some types, tags and keys are rare, some
 * have just about what a total counts, and some have come up only lately.
 */
const events = `
  insert into posthorn.events (id, type, tags, payload, ordering_key, owed, created_at)
  select id,
    case when id % 10000 = 77 then 'rare.thing' when id % 111 = 5 then 'middling.thing'
      when id > ${0.8 * stockCount} and id % 10 = 3 then 'fresh.thing'
      when id % 10 < 5 then 'order.created' when id % 10 < 9 then 'order.paid' else 'invoice.sent' end,
    nullif(array_remove(array[
      case when id % 5 = 0 or id % 10000 = 78 then 'eu' end, case when id % 10000 = 78 then 'rare' end,
      case when id % 110 = 7 then 'middling' end, case when id > ${0.7 * stockCount} and id % 3 = 1 then 'fresh' end
    ], null), '{}'),
    '{"n":' || id || ',"note":"' || repeat('x', 64) || '"}',
    case when id % 4 = 3 then 'key-' || id % 1000 when id % 50 = 2 then 'busy' end,
    (case when id % 10000 = 77 then '{1,3}' when id % 10 = 0 then '{1,2}' when id % 10 = 9 then '{2}' else '{1}' end)::int[],
    posthorn.clock() - interval '7 days' + id * interval '600 ms'
  from generate_series(1, ${stockCount}) as id`

const outcomes = `
  insert into posthorn.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at, finished_at, execution_ms, reason)
  select id, owed_to, o.settlement::posthorn.settlement, 1, 0, 1, 1, created_at, created_at + interval '1 s', 5,
    case when o.settlement = 'buried' then 'refused' end
  from posthorn.events
  cross join lateral unnest(owed) as owed_to
  cross join lateral (
    select case when id % 100 = 1 or id % 1000 = 60 or (id % 1000 = 50 and owed_to = 2) then 'buried'
      when id % 1000 = 8 then 'expired' when id % 2000 = 10 then 'cancelled' else 'completed' end as settlement
  ) as o`

const deadLetters = `
  insert into posthorn.dead_letters (id, event_id, subscription, kind, reason, attempts, failures, event_snapshot, buried_at)
  select posthorn.uuid_v7(), event_id, subscription, settlement::text, 'refused', 1, 1, '{}', finished_at
  from posthorn.audit
  where settlement in ('buried', 'expired')`

const waitingInRuns = [
  `insert into posthorn.runs (subscription, state, event_ids, first_id)
  select owed_to, 'ready', array_agg(id order by id), min(id)
  from posthorn.events
  cross join lateral unnest(owed) as owed_to
  where unfinished and ordering_key is null
  group by owed_to, id / run_span`,
  `insert into posthorn.lane_queue (subscription, ordering_key, position, event_ids)
  select owed_to, ordering_key, id / 20000, array_agg(id order by id)
  from posthorn.events
  cross join lateral unnest(owed) as owed_to
  where unfinished and ordering_key is not null
  group by owed_to, ordering_key, id / 20000`,
]

const waitingAlone = [
  `insert into posthorn.runs (subscription, state, event_ids, first_id, due_at, attempts, failures)
  select owed_to, (case when id % 2 = 0 then 'ready' else 'deferred' end)::posthorn.run_state, array[id], id,
    posthorn.clock() + interval '1 h', 1, 1
  from posthorn.events
  cross join lateral unnest(owed) as owed_to
  where unfinished`,
  `insert into posthorn.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at, finished_at, next_at, reason)
  select id, owed_to, 'retried', 1, 1, 1, 1, created_at, created_at + interval '1 s', created_at + interval '1 h', 'busy'
  from posthorn.events
  cross join lateral unnest(owed) as owed_to
  where unfinished
  order by id`,
]

const leases = `
  update posthorn.runs
  set state = 'leased', token = 2, worker = 1, granted = 1, begun = event_ids[1:1], leased_at = posthorn.clock(),
    leased_until = posthorn.clock() + interval '1 day'
  where id in (select id from posthorn.runs where state = 'ready' order by id limit 100)`
