import { createRequire } from 'node:module'
import pg from 'pg'
import PgBoss from 'pg-boss'
import { dropSchema, nextSchema } from './server.js'
import { inBatches, within } from './workload.js'

const { version } = createRequire(import.meta.url)('pg-boss/package.json')
const queue = 'bench'
// Its claim reads past finished jobs, so its rate grows with the batch up to about 5,000.
const best = { batchSize: 5_000, loopCount: 2 }

export const pgBoss = {
  name: 'pg-boss',
  version,
  settings: {
    drain:
      `fetch { batchSize: ${best.batchSize}, priority: false } then complete(ids), ${best.loopCount} loops, ` +
      'no supervision (https://timgit.github.io/pg-boss/#/./api/jobs)',
    publish: 'insert in batches (https://timgit.github.io/pg-boss/#/./api/jobs)',
  },

  /** From the first fetch until every job has run and its completion is committed. */
  async drain(servers, { events, record, limitMs, analyzed = false }) {
    const { boss, pool, schema } = await open(servers)
    for (const batch of inBatches(events, 1000)) await boss.insert(batch.map(toJob))
    if (analyzed) await pool.query(`analyze ${schema}.job`)
    await pool.query('checkpoint')

    const begin = performance.now()
    const loops = Array.from({ length: best.loopCount }, () => fetchAll(boss, record, best.batchSize))
    await within(limitMs, 'pg-boss', Promise.all(loops))
    const seconds = (performance.now() - begin) / 1000
    await close(boss, pool, schema)
    return seconds
  },

  async openPublisher(servers) {
    const { boss, pool, schema } = await open(servers)
    return {
      publishMany: (events) => boss.insert(events.map(toJob)),
      publish: (event) => boss.send(queue, event.payload),
      async stored() {
        const { rows } = await pool.query(
          `select count(*)::int as count from ${schema}.job where name = $1`,
          [queue],
        )
        return rows[0].count
      },
      close: () => close(boss, pool, schema),
    }
  },
}

async function fetchAll(boss, record, batchSize) {
  for (;;) {
    const jobs = await boss.fetch(queue, { batchSize, priority: false })
    if (jobs.length === 0) return
    for (const job of jobs) record.ran(job.data.n)
    await boss.complete(
      queue,
      jobs.map((job) => job.id),
    )
  }
}

function toJob({ payload }) {
  return { name: queue, data: payload }
}

async function open(servers) {
  const schema = nextSchema('boss')
  const pool = new pg.Pool({ ...servers.database, max: 1 })
  const boss = new PgBoss({ ...servers.database, schema, max: 10, supervise: false, schedule: false })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(queue)
  return { boss, pool, schema }
}

async function close(boss, pool, schema) {
  await boss.stop({ graceful: false, wait: true })
  await dropSchema(pool, schema)
  await pool.end()
}
