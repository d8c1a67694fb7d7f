/** What handlers of workers do. Each records its begin first, and its end as the last thing before it returns. */
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { randomFor } from '../support/random.js'

export const behaviours = { mixed, obedient, ledger, poison, busy, fixed, late }

/** Takes a while; fails, snoozes and buries at random, the same way in whatever process it runs. */
function mixed({ behaviour, config, record, name }) {
  const { msMax, slowShare = 0, slowMs = 0, failShare = 0, snoozeShare = 0, buryShare = 0 } = behaviour
  return async (event, attempt) => {
    const what = begin(record, name, event, attempt)
    const random = randomFor(config.seed, event.id, attempt.number)
    await delay(random.chance(slowShare) ? slowMs : random.next() * msMax)
    const dice = random.next()
    if (dice < failShare) {
      record('end', { ...what, outcome: 'fail' })
      throw new Error('by chance')
    }
    if (dice < failShare + snoozeShare) {
      record('end', { ...what, outcome: 'snooze' })
      attempt.snooze(random.integer(1, 50))
      return
    }
    if (dice < failShare + snoozeShare + buryShare) {
      record('end', { ...what, outcome: 'bury' })
      attempt.bury('by chance')
      return
    }
    record('end', { ...what, outcome: 'ok' })
  }
}

/** Takes a while, and stops when it is told to. */
function obedient({ behaviour, config, record, name }) {
  return async (event, attempt) => {
    const what = begin(record, name, event, attempt)
    const ms = randomFor(config.seed, event.id, attempt.number).next() * behaviour.msMax
    try {
      await delay(ms, undefined, { signal: attempt.signal })
    } catch (error) {
      record('end', { ...what, outcome: 'aborted' })
      throw error
    }
    record('end', { ...what, outcome: 'ok' })
  }
}

/** Writes its effect and its settlement in one transaction, and can be made to freeze right before the latter. */
function ledger({ behaviour, config, record, name }) {
  const pool = new pg.Pool({ ...config.database, max: 20, allowExitOnIdle: true })
  pool.on('error', () => undefined)
  return async (event, attempt) => {
    const what = begin(record, name, event, attempt)
    const client = await pool.connect()
    try {
      await client.query('begin')
      await client.query(`insert into ${config.schema}.ledger (event_id, pid) values ($1, $2)`, [
        event.id,
        process.pid,
      ])
      await delay(randomFor(config.seed, event.id, attempt.number).next() * behaviour.msMax)
      await attempt.completeIn(freezing(client, event, record))
      // Before the commit: once it is through, others may go on before we hear of it. A failure corrects it.
      record('end', { ...what, outcome: 'ok' })
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      record('end', { ...what, outcome: error.code === 'LEASE_LOST' ? 'lease lost' : 'fail' })
      throw error
    } finally {
      client.release()
    }
  }
}

/** The payload says in which process the transaction stops the process that runs it, once. */
function freezing(client, event, record) {
  return {
    query: async (text, values) => {
      if (event.payload.freeze === true && !frozen) {
        frozen = true
        record('freezes', { id: event.id })
        process.kill(process.pid, 'SIGSTOP')
        // The signal arrives at once, but the next statement should surely come after it.
        await delay(50)
      }
      return client.query(text, values)
    },
  }
}
let frozen = false

/** One event takes the whole process down, whenever it is tried. */
function poison({ behaviour, record, name }) {
  return async (event, attempt) => {
    const what = begin(record, name, event, attempt)
    await delay(behaviour.ms)
    if (event.payload.poison === true) process.abort()
    record('end', { ...what, outcome: 'ok' })
  }
}

/** Blocks the event loop, so that not even heartbeats get through. */
function busy({ behaviour, record, name }) {
  return (event, attempt) => {
    const what = begin(record, name, event, attempt)
    if (attempt.number === 1) {
      const until = performance.now() + behaviour.ms
      while (performance.now() < until);
    }
    record('end', { ...what, outcome: 'ok' })
  }
}

/** Takes the same time always. */
function fixed({ behaviour, record, name }) {
  return async (event, attempt) => {
    const what = begin(record, name, event, attempt)
    await delay(behaviour.ms)
    record('end', { ...what, outcome: 'ok' })
  }
}

/** Gives up at the first attempt, for good, and succeeds if it is asked once more. */
function late({ record, name }) {
  return (event, attempt) => {
    const what = begin(record, name, event, attempt)
    const outcome = attempt.number === 1 ? 'bury' : 'ok'
    record('end', { ...what, outcome })
    if (outcome === 'bury') attempt.bury('too early')
  }
}

/** Tells apart attempts of one delivery that overlap in one process. */
let begun = 0

function begin(record, subscription, event, attempt) {
  const what = {
    no: ++begun,
    subscription,
    id: event.id,
    key: event.orderingKey,
    concurrencyKey: event.concurrencyKey,
    sequence: event.payload.sequence,
    attempt: attempt.number,
    failures: attempt.failures,
  }
  record('begin', what)
  return what
}
