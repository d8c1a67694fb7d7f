/** Finished events as publishing and settling would have left them a week ago, and what prunes them. */
import { dropSchema, nextSchema } from './server.js'

const { createPosthorn } = await import('../dist/index.js')
const { readConfig } = await import('../dist/config.js')
const { openPostgres } = await import('../dist/db/postgres.js')
const { createRetention } = await import('../dist/retention/retention.js')
const { Loop } = await import('../dist/core/loop.js')
const { pruneShare } = await import('../dist/upkeep/upkeep.js')

/** A hub without upkeep that claims, and the loop of upkeep beside it on connections of its own. */
export async function openPruning(servers) {
  const schema = nextSchema('posthorn')
  const { connectionString, ...parts } = servers.database
  const hub = await createPosthorn({ database: connectionString ?? parts, schema, log: false, upkeep: false })
  await hub.subscribe('bench.claimed', { name: 'bench' })
  const db = await openPostgres({ connection: servers.database, schema, statementTimeoutMs: 600_000 })
  return {
    db,
    claim: () => claim(hub),
    start: () => startPruning(db),
    async close() {
      await hub.stop()
      await dropSchema(db, schema)
      await db.close()
    },
  }
}

export async function fillFinished(db, count) {
  const run = (text) => db.query(text.replaceAll('posthorn.', `${db.schema}.`), [count])
  await run(events)
  await run(outcomes)
  await run(`select setval('posthorn.event_ids', $1)`)
  for (const table of ['events', 'audit']) await db.query(`vacuum analyze ${db.schema}.${table}`)
  await db.query('checkpoint')
}

/** Of those that were to go. */
export async function leftOver(db, count) {
  const { rows } = await db.query(
    `select (select count(*)::int from posthorn.events where id <= $1) as events,
      (select count(*)::int from posthorn.audit where event_id <= $1) as audit`.replaceAll(
      'posthorn.',
      `${db.schema}.`,
    ),
    [count],
  )
  return rows[0]
}

const events = `
  insert into posthorn.events (id, type, payload, ordering_key, owed, created_at)
  select n, 'bench.event', json_build_object('n', n, 'order', 'order-' || n, 'note', repeat('x', 64))::text,
    case when n % 4 = 0 then 'key-' || n % 1000 end, '{1}', posthorn.clock() - interval '8 days'
  from generate_series(1, $1::bigint) as n`

/** One in twenty has failed once before. */
const outcomes = `
  insert into posthorn.audit (event_id, subscription, settlement, attempt, failures, worker, token, leased_at, started_at,
    finished_at, execution_ms)
  select n, 1, (case when k = 1 then 'completed' else 'retried' end)::posthorn.settlement, 1, 0, 1, n,
    posthorn.clock() - interval '8 days', posthorn.clock() - interval '8 days', posthorn.clock() - interval '8 days', 5
  from generate_series(1, $1::bigint) as n
  cross join lateral generate_series(case when n % 20 = 0 then 0 else 1 end, 1) as k`

/** How long one lease took. */
async function claim(hub) {
  await hub.publish({ type: 'bench.claimed', payload: { n: 1 } })
  const begin = performance.now()
  const { runs } = await hub.pull.lease({
    ...{ subscription: 'bench', limit: 1, tags: null, workerId: 'bench', leaseMs: null, waitMs: 0 },
    ...{ begins: 'granted', suspects: true, signal: new AbortController().signal },
  })
  const ms = performance.now() - begin
  const [run] = runs
  if (runs.length !== 1) throw new Error(`Expected a claim of 1, got ${runs.length}`)
  const token = {
    runId: run.id,
    token: run.token,
    subscription: run.subscription,
    lane: run.laneKey !== null,
  }
  const [reply] = await hub.pull.settle(
    [
      {
        claim: { eventId: run.deliveries[0].event.id, token },
        ...{ outcome: { kind: 'succeeded' }, startedAfterMs: null, executionMs: 1, statusCode: null },
      },
    ],
    { records: 'failures' },
  )
  if ('error' in reply) throw reply.error
  return ms
}

/** As upkeep does it. `promise` resolves when a round has found nothing more to do. */
function startPruning(db) {
  const longest = { name: 'none', ms: 0 }
  const observe = { pruned: () => undefined, failed: (error) => fail(error) }
  const retention = createRetention({ db: timed(db, longest), config: readConfig({}, {}), observe })
  let fail
  let succeed
  const promise = new Promise((resolve, reject) => {
    succeed = resolve
    fail = reject
  })
  const begin = performance.now()
  let steps = 0
  const step = async () => {
    steps++
    const more = await retention.step()
    if (!more) succeed({ steps, seconds: (performance.now() - begin) / 1000, longest })
    return more
  }
  const loop = new Loop({ name: 'pruning', everyMs: 60_000, step, share: pruneShare, trouble: fail })
  loop.start()
  return { promise, stop: () => loop.stop() }
}

/** The same database, with a note of the statement that took longest. */
function timed(db, longest) {
  const watch =
    (queryable, verb) =>
    async (statement, ...rest) => {
      const begin = performance.now()
      try {
        return await queryable[verb](statement, ...rest)
      } finally {
        const ms = performance.now() - begin
        if (ms > longest.ms) Object.assign(longest, { name: statement.name ?? statement, ms })
      }
    }
  const watched = (queryable) => ({ query: watch(queryable, 'query'), run: watch(queryable, 'run') })
  return {
    ...{ schema: db.schema, ...watched(db), once: watch(db, 'once') },
    transaction: (work, options) => db.transaction((tx) => work(watched(tx)), options),
  }
}
