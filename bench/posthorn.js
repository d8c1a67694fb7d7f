/** Our side, with the defaults a user gets. All that the bench knows about the library's API and tables is here. */
import { createRequire } from 'node:module'
import pg from 'pg'
import { dropSchema, nextSchema } from './server.js'
import { inBatches, waitUntil, within } from './workload.js'

const { version } = createRequire(import.meta.url)('../package.json')
const type = 'bench.event'
const subscription = { name: 'bench', concurrency: 8 }
const defaults = `defaults, handler concurrency ${subscription.concurrency}`

export const posthorn = {
  name: 'posthorn',
  version,
  settings: {
    drain: `${defaults}, publishMany in batches of 1,000`,
    lanes: `${defaults}, one orderingKey per key`,
    publish:
      'defaults; publishMany in batches, publish one by one; one handler subscription is owed every event',
    latency: defaults,
    beside: `${defaults}, publishMany in batches of 100`,
  },

  /** From start() until every event has run and none is waiting or leased. */
  async drain(servers, { events, record, limitMs, numberOf = inPayload }) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    await subscribe(servers, schema)
    const hub = await openHub(servers, schema, (event) => record.ran(numberOf(event)))
    for (const batch of inBatches(events, 1000)) await hub.publishMany(batch.map(toEvent))
    await pool.query('checkpoint')

    const begin = performance.now()
    await hub.start()
    await within(limitMs, 'posthorn', record.done)
    await waitUntil(() => isSettled(pool, schema), { what: 'a settled queue' })
    const seconds = (performance.now() - begin) / 1000
    await hub.stop()
    await verifyAudit(pool, schema, events.length)
    await close(pool, schema)
    return seconds
  },

  async openPublisher(servers) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    await subscribe(servers, schema)
    // Never started: nobody consumes while publishing is measured.
    const hub = await openHub(servers, schema, () => undefined)
    return {
      publishMany: (events) => hub.publishMany(events.map(toEvent)),
      publish: (event) => hub.publish(toEvent(event)),
      async stored() {
        const { rows } = await pool.query(`select count(*)::int as count from ${schema}.events`)
        return rows[0].count
      },
      async close() {
        await hub.stop()
        await close(pool, schema)
      },
    }
  },

  /** Publishes to many subscriptions, which look into every event if there is a filter. */
  async openFiltered(servers, { subscribers, options }) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    const subscribing = await openHub(servers, schema)
    for (let n = 0; n < subscribers; n++) {
      subscribing.on(type, { name: `bench${n}`, ...options }, async () => undefined)
    }
    await subscribing.start()
    await subscribing.stop()
    const hub = await openHub(servers, schema)
    return {
      publish: (event) => hub.publish(toEvent(event)),
      async owed() {
        const { rows } = await pool.query(`select sum(cardinality(owed))::int as count from ${schema}.events`)
        return rows[0].count
      },
      async close() {
        await hub.stop()
        await close(pool, schema)
      },
    }
  },

  /** A running hub; `onRun` is called as the first thing the handler does. */
  async openRunner(servers, onRun) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    const hub = await openHub(servers, schema, (event, attempt) => onRun(event.payload, attempt))
    await hub.start()
    return {
      schema,
      publish: (event) => hub.publish(toEvent(event)),
      publishMany: (events) => hub.publishMany(events.map(toEvent)),
      isSettled: () => isSettled(pool, schema),
      async close() {
        await hub.stop()
        await close(pool, schema)
      },
    }
  },

  /** A backlog that several processes drain: see drain-worker.js. */
  async openShared(servers, events) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    await subscribe(servers, schema)
    const hub = await openHub(servers, schema)
    for (const batch of inBatches(events, 1000)) await hub.publishMany(batch.map(toEvent))
    await hub.stop()
    await pool.query('checkpoint')
    return {
      schema,
      isSettled: () => isSettled(pool, schema),
      async verify() {
        await verifyAudit(pool, schema, events.length)
        await verifyOrder(pool, schema)
      },
      close: () => close(pool, schema),
    }
  },

  async openWorker(servers, schema) {
    const worker = { handled: 0 }
    const hub = await openHub(servers, schema, () => {
      worker.handled++
    })
    worker.start = () => hub.start()
    worker.stop = () => hub.stop()
    return worker
  },

  /** A running hub for B13; `onHandled` is called with each event's number. */
  async openBusy(servers, onHandled) {
    const schema = nextSchema('posthorn')
    const pool = openPool(servers)
    const hub = await openHub(servers, schema, (event) => onHandled(event.payload.n))
    await hub.start()
    return {
      publishMany: (events) => hub.publishMany(events.map(toEvent)),
      analyze: () => pool.query('analyze'),
      async close() {
        await hub.stop()
        await close(pool, schema)
      },
    }
  },

  /** A publisher in a process of its own, for the hub of `openRunner`. */
  async openRemote(servers, schema) {
    const hub = await openHub(servers, schema)
    return { publish: (event) => hub.publish(toEvent(event)), close: () => hub.stop() }
  },
}

/** A lane's next attempt begins only after the settlement of the one before it, so settlements have the order of events. */
async function verifyOrder(pool, schema) {
  const { rows } = await pool.query(
    `select count(*)::int as misordered
    from (
      select a.event_id, lag(a.event_id) over (partition by e.ordering_key order by a.id) as before
      from ${schema}.audit a
      join ${schema}.events e on e.id = a.event_id
    ) as a
    where a.before > a.event_id`,
  )
  if (rows[0].misordered > 0) throw new Error(`posthorn: ${rows[0].misordered} events are out of order`)
}

/** A queue in memory, which is persisted as it goes; nothing else differs from `posthorn`. */
export const posthornMemory = {
  name: 'posthorn in memory',
  version,
  settings: { memory: `${defaults}, storage memory, maxQueueDepth raised, publishMany in batches of 1,000` },

  /** From resuming the queue until every event has run and that is persisted. */
  async drain(servers, { events, record, limitMs, numberOf = inPayload }) {
    const { hub, pool, schema, close } = await openMemory(servers, (event) => record.ran(numberOf(event)))
    await setStatus(pool, schema, 'paused')
    await waitUntil(() => statusOf(hub) === 'paused', { what: 'a paused queue' })
    for (const batch of inBatches(events, 1000)) await hub.publishMany(batch.map(toEvent))
    await hub.memory.persist()
    await pool.query('checkpoint')

    const begin = performance.now()
    await setStatus(pool, schema, 'active')
    await within(limitMs, 'posthorn in memory', record.done)
    await persistAll(hub)
    const seconds = (performance.now() - begin) / 1000
    await close()
    return seconds
  },

  /** From the first publish until the last event has run and that is persisted; `onBatch` is called after each 1,000. */
  async publishAndDrain(servers, { events, record, limitMs, onBatch = () => undefined }) {
    const { hub, close } = await openMemory(servers, (event) => record.ran(inPayload(event)))
    const begin = performance.now()
    for (const batch of inBatches(events, 1000)) {
      await hub.publishMany(batch.map(toEvent))
      onBatch()
    }
    await within(limitMs, 'posthorn in memory', record.done)
    await persistAll(hub)
    const seconds = (performance.now() - begin) / 1000
    await close()
    return seconds
  },
}

async function openMemory(servers, handle) {
  const schema = nextSchema('posthorn')
  const pool = openPool(servers)
  const options = { storage: 'memory', maxQueueDepth: 1_000_000 }
  const hub = await openHub(servers, schema, handle, options)
  await hub.start()
  return {
    ...{ hub, pool, schema },
    async close() {
      const { rows } = await pool.query(
        `select checkpoint, depth, (select processed from ${schema}.queue_totals where subscription = m.subscription)
        from ${schema}.memory_queues m`,
      )
      await hub.stop()
      if (rows[0].depth !== 0)
        throw new Error(`posthorn in memory: not all is persisted: ${JSON.stringify(rows)}`)
      await close(pool, schema)
    },
  }
}

/** Which of the events of a run it is. */
const inPayload = (event) => event.payload.n

const statusOf = (hub) => hub.memory.views[0].subscription.status

async function setStatus(pool, schema, status) {
  await pool.query(`update ${schema}.subscriptions set status = $1 where name = $2`, [
    status,
    subscription.name,
  ])
}

/** The last handlers have begun; once they are settled, that is written. */
async function persistAll(hub) {
  while (hub.memory.views[0].depth > 0) await new Promise(setImmediate)
  await hub.memory.persist()
}

/** A schema that B7 fills: `settle` runs the handlers until nothing is due, `close` drops it. */
export async function openBacklog(servers, handle = () => undefined) {
  const schema = nextSchema('posthorn')
  const pool = openPool(servers)
  await subscribe(servers, schema)
  const publisher = await openHub(servers, schema, handle)
  return {
    schema,
    async publishAll(events) {
      for (const batch of inBatches(events, 1000)) await publisher.publishMany(batch.map(toEvent))
    },
    /** Each by itself and with a key of its own, as by as many callers: one row at the door for each. */
    async publishEach(count) {
      for (let from = 0; from < count; from += 10_000) {
        await pool.query(
          `select ${schema}.publish($1, '{"n": 1}', ordering_key => 'key-' || n, notify => false) from generate_series($2::int, $3) as n`,
          [type, from, Math.min(count, from + 10_000) - 1],
        )
      }
    },
    /** Another queue drains, and holds this many arrivals of lanes until it is resumed. */
    async holdByDrain(count) {
      await publisher.subscribe('bench.held', { name: 'drained' })
      await publisher.queues.drain('drained')
      await pool.query(
        `insert into ${schema}.runs (subscription, state, event_ids, first_id, ordering_key)
        select s.no, 'held', array[s.drain_fence + n], s.drain_fence + n, 'key-' || n
        from ${schema}.subscriptions s, generate_series(1, $1::int) as n
        where s.name = 'drained'`,
        [count],
      )
      await pool.query(
        `insert into ${schema}.holding_queues select no from ${schema}.subscriptions where name = 'drained'`,
      )
    },
    /** Starts the handlers and stops them when `isDone`; what they held back stays held back. */
    async runUntil(isDone) {
      const hub = await openHub(servers, schema, handle)
      await hub.start()
      await waitUntil(isDone, { limitMs: 300_000, what: 'the shape of the backlog' })
      await hub.stop()
    },
    /** Lets in what stands at the door, as every lease that finds too little does. */
    async admit() {
      const [{ openPostgres }, { Admitter }] = await Promise.all([
        import('../dist/db/postgres.js'),
        import('../dist/engine/admit.js'),
      ])
      const db = await openPostgres({ connection: servers.database, schema })
      const admitter = new Admitter(db)
      while (!(await admitter.admit()).drained);
      await db.close()
    },
    async close() {
      await publisher.stop()
      await close(pool, schema)
    },
  }
}

/** Holds the head of a lane back for an hour: the lane waits behind it. */
export function holdBack(attempt) {
  return attempt.snooze(3_600_000)
}

/** One claim on `client`, in the caller's transaction, as a runner makes it; returns the count of deliveries leased. */
export async function claimOnce(client, schema, request) {
  const { name, text, values } = await claimStatement(schema, request)
  await client.query(plans)
  const { rows } = await client.query({ name: `${schema}.${name}`, text, values, rowMode: 'array' })
  return rows.length
}

/** Shared buffers hit and read by the same claim, by EXPLAIN (ANALYZE, BUFFERS), in the caller's transaction. */
export async function claimBuffers(client, schema, request) {
  await client.query(plans)
  return explainBuffers(client, await claimStatement(schema, request))
}

/** One admission on `client`, in the caller's transaction, by somebody who has not admitted before. */
export async function admitOnce(client, schema) {
  await client.query(admitPlans)
  await client.query({ name: `${schema}.admit`, text: admitText(schema) })
}

export async function admitBuffers(client, schema) {
  await client.query(admitPlans)
  return explainBuffers(client, { text: admitText(schema), values: [] })
}

const admitText = (schema) => `select * from ${schema}.admit(null, null, null, null, 10000)`

const admitPlans =
  'set local jit = off; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_mergejoin = off'

/** What the library pins for a lease: src/db/postgres.ts. */
const plans =
  'set local jit = off; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_mergejoin = off; set local enable_nestloop = off'

async function claimStatement(schema, { limit, tags }) {
  const { leaseStatementFor, leaseValues } = await import('../dist/engine/lease.js')
  // By tag one at a time, as `poll` does; else as a runner whose runs are long.
  const want = {
    eventsMax: tags === undefined ? limit : 1,
    runsMax: tags === undefined ? 2 : 1,
    laneMax: 50,
    suspects: true,
    leaseMs: 30_000,
  }
  const request = {
    wants: [{ ...want, subscription: tags === undefined ? 1 : 0, limited: false }],
    token: 1,
    worker: 1,
    begins: tags === undefined ? 'reported' : 'granted',
    tags: tags ?? null,
  }
  return { ...leaseStatementFor({ schema }, request), values: leaseValues(request) }
}

/** Shared hit + read of a whole statement, which the top node of its plan adds up; for `claimBuffers`. */
export async function explainBuffers(client, { text, values }) {
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${text}`, values)
  const { Plan: plan } = rows[0]['QUERY PLAN'][0]
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}

async function openHub(servers, schema, handle, options = {}) {
  const { createPosthorn } = await import('../dist/index.js')
  const { connectionString, ...parts } = servers.database
  const hub = await createPosthorn({ database: connectionString ?? parts, schema, log: false })
  if (handle !== undefined) {
    hub.on(type, { ...subscription, ...options }, async (event, attempt) => handle(event, attempt))
  }
  return hub
}

/** A subscription exists once a hub has started with it; only then is it owed what is published. */
async function subscribe(servers, schema) {
  const hub = await openHub(servers, schema, () => undefined)
  await hub.start()
  await hub.stop()
}

function toEvent({ key, payload, tags, runAt }) {
  return {
    ...(tags === undefined ? { type } : { title: 'bench', tags }),
    payload,
    ...(key === null ? {} : { orderingKey: key }),
    ...(runAt === undefined ? {} : { runAt }),
  }
}

/** The view lists every delivery that is waiting or leased. */
async function isSettled(pool, schema) {
  const { rows } = await pool.query(`select exists (select from ${schema}.unfinished) as waiting`)
  return !rows[0].waiting
}

/** Every attempt must be in the audit log, once. */
async function verifyAudit(pool, schema, expected) {
  const { rows } = await pool.query(
    `select count(*)::int as count, count(distinct event_id)::int as distinct
     from ${schema}.event_log
     where action = 'COMPLETED'`,
  )
  if (rows[0].count !== expected || rows[0].distinct !== expected) {
    throw new Error(
      `posthorn: ${expected} events ran, the audit log has ${rows[0].count} of ${rows[0].distinct}`,
    )
  }
}

function openPool(servers) {
  return new pg.Pool({ ...servers.database, max: 2 })
}

async function close(pool, schema) {
  await dropSchema(pool, schema)
  await pool.end()
}
