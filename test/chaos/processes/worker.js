/**
 * A process with handlers that records every begin and end, and does through the library what the driver tells it.
 * `redeploy` replaces its hub by one with other options, as a rolling deployment does.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { openPosthorn } from '../../../dist/create.js'
import { openRecorder } from '../../crash/support/recorder.js'
import { plantBug } from '../bugs.js'
import { digestOf } from '../payload-text.js'
import { openPool } from '../pool.js'
import { commands } from './commands.js'
import { databaseOf } from './database.js'
import { outcomeOf } from './outcomes.js'
import { watchSleepers } from './sleepers.js'
import { watchStalls } from './stalls.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
watchStalls(record)

let calm = config.calm
let begun = 0
let underWay = 0
// A connection that has gone deaf is found out by time limits, as in any application.
const patience = { query_timeout: 6_000, connectionTimeoutMillis: 6_000, keepAlive: true }
const pool = openPool(config.database, { ...patience, max: 4, allowExitOnIdle: true })

const open = async (handlers) => {
  const { posthorn: hub, db } = await openPosthorn({
    database: databaseOf(config),
    schema: config.schema,
    workerId: config.workerId,
    log: process.env.POSTHORN_CHAOS_LOG ?? false,
    pollMs: 20,
    idlePollMs: 300,
    poolMax: 6,
    dispatcher: false,
    migrate: false,
    ...config.hub,
  })
  watchSleepers(db, record)
  plantBug(config.bug, db)
  for (const { name, types, options } of handlers) {
    const { concurrency, ...rest } = options
    hub.on(types, { name, concurrency, ...rest }, counted(name === 'ledger' ? ledger : handle(name)))
  }
  hub.events.on('settled', ({ subscription: s, eventId: id, settlement }) =>
    record('settled', { s, id, settlement }),
  )
  hub.events.on('lost', ({ subscription: s, eventId: id, why }) => record('lost', { s, id, why }))
  await hub.start()
  return hub
}

let hub = await open(config.handlers)
const own = {
  calm: () => {
    calm = true
  },
  underWay: () => underWay,
  redeploy: async ({ handlers }) => {
    const before = hub
    hub = await open(handlers)
    await before.stop({ graceMs: 2_000 })
  },
}

process.on('message', async ({ no, command, args }) => {
  try {
    const work = own[command] ?? commands[command]
    const value = await work(args, { hub, pool, record, config, isCalm: () => calm })
    process.send({ no, type: 'ok', value })
  } catch (error) {
    process.send({
      no,
      type: unknownCodes.has(error.code) ? 'info' : 'fail',
      code: error.code,
      message: String(error.message).slice(0, 300),
    })
  }
})
/** What may have been done all the same. */
const unknownCodes = new Set([
  'COMMIT_UNKNOWN',
  'CANCEL_UNFINISHED',
  'DATABASE_UNAVAILABLE',
  'STOPPED',
  'ECONNRESET',
  'EPIPE',
  '57P01',
  '57P02',
  '08006',
  undefined,
])

process.once('SIGTERM', stop)
// A second signal during a slow stop must not end the process by its default action.
process.on('SIGTERM', () => undefined)
record('started', { worker: config.workerId })
process.send('ready')

async function stop() {
  await hub.stop({ graceMs: 3_000 })
  record('stopped')
  process.removeAllListeners('disconnect')
  process.exit(0)
}

function counted(handler) {
  return async (event, attempt) => {
    underWay++
    try {
      return await handler(event, attempt)
    } finally {
      underWay--
    }
  }
}

function begin(s, event, attempt) {
  const what = { no: ++begun, s, u: event.payload.u, id: event.id }
  const { number, failures } = attempt
  const hash = digestOf(event.payloadText)
  record('begin', { ...what, key: event.orderingKey, attempt: number, failures, hash })
  return what
}

function handle(s) {
  return async (event, attempt) => {
    const what = begin(s, event, attempt)
    const { outcome, ms } = outcomeOf({
      payload: event.payload,
      attempt: attempt.number,
      subscription: s,
      config,
      calm,
    })
    await delay(ms)
    if (outcome === 'block') blockProcess(ms)
    if (outcome === 'timeout') return untilAborted(attempt, what)
    record('end', { ...what, outcome: outcome === 'block' ? 'ok' : outcome })
    if (outcome === 'throw') throw new Error('by plan')
    if (outcome === 'snooze') attempt.snooze(20 + ms)
    if (outcome === 'bury') attempt.bury('by plan')
    if (outcome === 'crash') process.kill(process.pid, 'SIGKILL')
  }
}

/** Nothing else of this process runs meanwhile: no lease is renewed. */
function blockProcess(ms) {
  const untilMs = performance.now() + 500 + Math.min(ms, 6) * 700
  while (performance.now() < untilMs);
}

async function untilAborted({ signal }, what) {
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  record('end', { ...what, outcome: 'timeout' })
  throw new Error('timed out')
}

/** Writes its effect and its settlement in one transaction. */
async function ledger(event, attempt) {
  const what = begin('ledger', event, attempt)
  const { outcome, ms } = outcomeOf({
    payload: event.payload,
    attempt: attempt.number,
    subscription: 'ledger',
    config,
    calm,
  })
  const client = await pool.connect()
  let isBroken = true
  try {
    await client.query('begin')
    await client.query(`insert into ${config.schema}.chaos_ledger (event_id, u) values ($1, $2)`, [
      event.id,
      event.payload.u,
    ])
    await delay(ms)
    if (outcome === 'throw' || outcome === 'bury') throw new Error('by plan')
    await attempt.completeIn(client)
    record('end', { ...what, outcome: 'ok' })
    await client.query('commit')
    isBroken = false
  } catch (error) {
    record('end', { ...what, outcome: error.code === 'LEASE_LOST' ? 'lease lost' : 'throw' })
    await client.query('rollback').catch(() => undefined) // the connection is gone, and its transaction with it
    throw error
  } finally {
    client.release(isBroken)
  }
}
