/**
 * A process with a memory queue. It publishes what it is told, begins to work once all of that is persisted, and stops
 * itself (SIGSTOP) in the handler of one event, so that the stop surely lies within an attempt.
 */
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { createPosthorn } from '../../../dist/index.js'
import { openRecorder } from '../support/recorder.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
process.send('ready')

const pool = new pg.Pool({ ...config.database, max: 10 })
const hub = await createPosthorn({
  database: config.database,
  schema: config.schema,
  workerId: config.workerId,
  log: process.env.POSTHORN_CRASH_LOG ?? false,
  pollMs: 20,
  upkeep: false,
})
const persisted = {}
persisted.promise = new Promise((resolve) => {
  persisted.resolve = resolve
})
hub.on('memory', { name: 'm', storage: 'memory', concurrency: 4, persistenceThreshold: 1_000 }, handle)
await hub.start()
if (config.events.length > 0) {
  const published = await hub.publishMany(config.events)
  for (const [place, { id }] of published.entries()) record('published', { id, ...config.events[place] })
  await hub.memory.persist()
}
persisted.resolve()
await untilOver()
record('over', { isLost: hub.memory.views.length === 0 })
await hub.stop({ graceMs: 5_000 })
await pool.end()
process.exit(0)

async function handle(event, attempt) {
  await persisted.promise
  const { id, payload, orderingKey: key } = event
  record('begin', { id, key, number: attempt.number })
  await delay(3)
  if (payload.inTransaction) await completeIn(event, attempt)
  else if (payload.freezes) freeze(id)
  record('end', { id })
}

async function completeIn({ id, payload }, attempt) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`insert into ${config.schema}.ledger (event_id) values ($1)`, [id])
    if (payload.freezes) freeze(id)
    await attempt.completeIn(client)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    record('refused', { id, code: error.code })
    throw error
  } finally {
    client.release()
  }
}

function freeze(id) {
  if (!config.freezes) return
  record('freezes', { id })
  process.kill(process.pid, 'SIGSTOP')
}

/** The queue is another's, or nothing is left in it. */
async function untilOver() {
  while (hub.memory.views.some(({ depth }) => depth > 0)) await delay(10)
}
