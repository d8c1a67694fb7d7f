import { createRequire } from 'node:module'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { dropSchema, nextSchema } from './server.js'
import { inBatches, waitUntil, within } from './workload.js'

const { version } = createRequire(import.meta.url)('graphile-worker/package.json')
const page = 'https://worker.graphile.org/docs/performance'
// Its default logger prints a line per job: silence is faster.
const logger = new Logger(() => () => undefined)

// The settings its performance page was measured with, but for concurrentJobs: 100 is 15 % faster here than its 24.
const batched = {
  concurrentJobs: 100,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}
// No local queue: with one it locks several jobs of a named queue at once and runs them side by side. In the proof of
// lanes.js 298 of 400 jobs ran beside another of their queue; another run of it never emptied the job table.
const serial = { concurrentJobs: 24, maxPoolSize: 25, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
// The local queue trades latency for throughput, as its page says, so it stays off here.
// Its defaults otherwise: more concurrency changes nothing for one job at a time.
const direct = { concurrentJobs: 1, maxPoolSize: 10 }
// The best of 5, 10, 20 and 64: each add_job notifies, so commits queue behind one lock.
const publishPoolSize = 20

export const graphileWorker = {
  name: 'graphile-worker',
  version,
  settings: {
    drain: `${JSON.stringify(batched)}, no logging (${page}#batching)`,
    lanes: `${JSON.stringify(serial)}, one queueName per key, no local queue because that breaks their order (https://worker.graphile.org/docs/library/add-job)`,
    publish: `addJobs in batches; addJob on a pool of ${publishPoolSize} (https://worker.graphile.org/docs/library/add-job)`,
    beside: `${JSON.stringify(batched)}, addJobs in batches of 100 (${page}#batching)`,
    latency: `${JSON.stringify(direct)}, no local queue, LISTEN/NOTIFY (${page})`,
  },

  /**
   * From run() until every job has run and its row is gone. With \`analyzed\` the table has statistics, as it has in a
   * system that runs for a while; without them its plans halve its rate.
   */
  async drain(servers, { events, record, limitMs, analyzed = false }) {
    const settings = events[0].key === null ? batched : serial
    const schema = nextSchema('graphile')
    const pool = openPool(servers, settings.maxPoolSize)
    const utils = await makeWorkerUtils({ pgPool: pool, schema, logger })
    await utils.migrate()
    for (const batch of inBatches(events, 1000)) await utils.addJobs(batch.map(toJob))
    await utils.release()
    if (analyzed) await pool.query(`analyze ${schema}._private_jobs`)
    await pool.query('checkpoint')

    const taskList = { bench: async (payload) => record.ran(payload.n) }
    const begin = performance.now()
    const runner = await start(pool, schema, settings, taskList)
    await within(limitMs, 'graphile-worker', record.done)
    await waitUntil(() => isEmpty(pool, schema), { what: 'an empty job table' })
    const seconds = (performance.now() - begin) / 1000
    await runner.stop()
    await close(pool, schema)
    return seconds
  },

  async openPublisher(servers) {
    const schema = nextSchema('graphile')
    const pool = openPool(servers, publishPoolSize)
    const utils = await makeWorkerUtils({ pgPool: pool, schema, logger })
    await utils.migrate()
    return {
      publishMany: (events) => utils.addJobs(events.map(toJob)),
      publish: (event) => utils.addJob('bench', event.payload),
      async stored() {
        const { rows } = await pool.query(`select count(*)::int as count from ${schema}._private_jobs`)
        return rows[0].count
      },
      async close() {
        await utils.release()
        await close(pool, schema)
      },
    }
  },

  /** A running worker; `onRun` is called as the first thing a job does. */
  async openRunner(servers, onRun) {
    const schema = nextSchema('graphile')
    const pool = openPool(servers, direct.maxPoolSize)
    const runner = await start(pool, schema, direct, { bench: async (payload) => onRun(payload) })
    return {
      schema,
      publish: (event) => runner.addJob('bench', event.payload),
      async close() {
        await runner.stop()
        await close(pool, schema)
      },
    }
  },

  /** A running worker for B13; `onHandled` is called with each job's number. */
  async openBusy(servers, onHandled) {
    const schema = nextSchema('graphile')
    const pool = openPool(servers, batched.maxPoolSize)
    const utils = await makeWorkerUtils({ pgPool: pool, schema, logger })
    await utils.migrate()
    const runner = await start(pool, schema, batched, { bench: async (payload) => onHandled(payload.n) })
    return {
      publishMany: (events) => utils.addJobs(events.map(toJob)),
      analyze: () => pool.query('analyze'),
      async close() {
        await runner.stop()
        await utils.release()
        await close(pool, schema)
      },
    }
  },

  /** A publisher in a process of its own, for the worker of `openRunner`. */
  async openRemote(servers, schema) {
    const pool = openPool(servers, 2)
    const utils = await makeWorkerUtils({ pgPool: pool, schema, logger })
    return {
      publish: (event) => utils.addJob('bench', event.payload),
      async close() {
        await utils.release()
        await pool.end()
      },
    }
  },
}

function start(pool, schema, settings, taskList) {
  const { maxPoolSize: _, ...given } = settings
  const worker = Object.fromEntries(
    Object.entries({ ...given, schema }).filter(([, value]) => value !== undefined),
  )
  return run({ pgPool: pool, preset: { worker }, taskList, logger, noHandleSignals: true })
}

function toJob({ key, payload }) {
  return key === null ? { identifier: 'bench', payload } : { identifier: 'bench', payload, queueName: key }
}

async function isEmpty(pool, schema) {
  const { rows } = await pool.query(`select exists (select from ${schema}._private_jobs) as waiting`)
  return !rows[0].waiting
}

function openPool(servers, max) {
  const pool = new pg.Pool({ ...servers.database, max })
  // It warns on stderr about a pool without listeners; a broken connection ends the bench.
  pool.on('error', fail)
  pool.on('connect', (client) => client.on('error', fail))
  return pool
}

function fail(error) {
  throw error
}

async function close(pool, schema) {
  await dropSchema(pool, schema)
  await pool.end()
}
