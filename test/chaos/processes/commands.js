/** What a worker does through the library when the driver says so. Each gets its arguments and the worker's hub. */
import { setTimeout as delay } from 'node:timers/promises'
import { pulls } from '../topology.js'
import { pollOnce } from './polling.js'

export const commands = {
  publish: async ({ events }, { hub }) => answersOf(await publishAll(hub, events)),
  publishInTransaction,
  publishBySql,
  poll: pollOnce,
  cancel: ({ ids }, { hub }) => hub.cancel(ids, 'chaos'),
  reset: ({ id }, { hub }) => hub.reset(id, 'chaos'),
  purge: ({ id }, { hub }) => hub.purge(id, 'chaos'),
  prune: ({ olderThanMs }, { hub }) => hub.prune({ olderThanMs, deadLettersOlderThanMs: olderThanMs * 4 }),
  redrive: ({ ids }, { hub }) => hub.redrive(ids, 'chaos'),
  scrape: (_, { hub }) => hub.scrape(),
  retryLetter: ({ ids: [id] }, { hub }) => hub.retryDeadLetter(id, 'chaos'),
  retryLetters: ({ type }, { hub }) => hub.retryDeadLetters({ eventType: type }, 'chaos'),
  discardLetter: ({ ids: [id] }, { hub }) => hub.discardDeadLetter(id, 'chaos'),
  recover: async ({ name, since }, { hub }) => {
    const terms = { by: 'chaos', identical: 'again' }
    const { replay } = await hub.recover(name, { since: new Date(since), deadLetters: 'all' }, terms)
    return replay.id
  },
  replay: async ({ name, ids }, { hub }) => {
    const { replay } = await hub.replay(name, { eventIds: ids }, { by: 'chaos', identical: 'again' })
    return replay.id
  },
  abortReplay: async ({ name, ids, afterMs }, { hub }) => {
    const terms = { by: 'chaos', identical: 'again' }
    const { replay } = await hub.replay(name, { eventIds: ids, ratePerSecond: 5 }, terms)
    await delay(afterMs)
    const { state, done } = await hub.abortReplay(replay.id)
    return { id: replay.id, state, done }
  },
  unblock: ({ name, key, verb }, { hub }) => hub.unblock(name, key, verb, 'chaos'),
  unsubscribe: ({ name }, { hub }) => hub.unsubscribe(name),
  /** As the driver makes it over HTTP. */
  subscribe: async ({ name }, { hub }) => {
    const { event_types: types } = pulls.find((one) => one.name === name)
    const retry = { kind: 'fixed', delayMs: 60, failuresMax: 4 }
    return (await hub.subscribe(types, { name, retry, leaseMs: 2_000 })).id
  },
  defineType: ({ type, options }, { hub }) => hub.defineType(type, options),
  deleteType: ({ type }, { hub }) => hub.deleteType(type),
  haltQueue: async ({ name, verb }, { hub }) => (await hub.queues[verb](name)).status,
  configureQueue: async ({ name, config }, { hub }) => {
    await hub.queues.configure(name, config)
  },
  retryDelivery: ({ id }, { hub }) => hub.deliveries.retry(id, 'chaos'),
  buryDelivery: ({ id }, { hub }) => hub.deliveries.bury(id, { reason: 'chaos', by: 'chaos' }),
  checkpoint: async ({ name }, { hub }) => {
    await hub.queues.checkpoint(name)
  },
}

const revive = (events) =>
  events.map(({ runAt, expiresAt, ...event }) => ({
    ...event,
    ...(runAt && { runAt: new Date(runAt) }),
    ...(expiresAt && { expiresAt: new Date(expiresAt) }),
  }))

async function publishAll(hub, given, options) {
  const events = revive(given)
  return events.length === 1 ? [await hub.publish(events[0], options)] : hub.publishMany(events, options)
}

const answersOf = (published) =>
  published.map(({ id, replayed, durability }) => ({ id, replayed, durability }))

/** Groups are calls of their own; some are undone by a savepoint, and the whole may come late or not at all. */
async function publishInTransaction(
  { groups, isolation, writesFirst, lateMs, commits },
  { hub, pool, config },
) {
  const client = await pool.connect()
  let isBroken = false
  try {
    await client.query(`begin isolation level ${isolation}`)
    // Its transaction has a number before it publishes, as those of most callers have.
    if (writesFirst) {
      await client.query(`insert into ${config.schema}.chaos_orders (no) values (1)`)
      await delay(lateMs / 2)
    }
    const answers = []
    for (const { events, isUndone } of groups) {
      await client.query('savepoint one')
      const published = await publishAll(hub, events, { tx: client })
      await client.query(isUndone ? 'rollback to savepoint one' : 'release savepoint one')
      answers.push(...answersOf(published))
    }
    await delay(lateMs)
    if (commits) {
      isBroken = true // until the answer has come, nobody knows
      const { command } = await client.query('commit')
      isBroken = false
      if (command !== 'COMMIT') throw Object.assign(new Error('rolled back'), { code: 'ROLLED_BACK' })
    } else await client.query('rollback')
    return answers
  } catch (error) {
    const { code } = error
    if (isBroken && !/^(40|23|25)/.test(code ?? '')) throw Object.assign(error, { code: 'COMMIT_UNKNOWN' })
    await client.query('rollback').catch(() => undefined) // the connection is gone, and its transaction with it
    isBroken = !/^[0-9A-Z]{5}$/.test(code ?? '')
    // Nothing was committed: whatever went wrong is a refusal.
    throw Object.assign(error, { code: `refused ${code}` })
  } finally {
    client.release(isBroken)
  }
}

/** By the SQL function, each event by a statement of its own, several in one transaction. */
async function publishBySql({ calls, commits, lateMs }, { pool, config }) {
  const client = await pool.connect()
  let isBroken = true // until we are through, nobody knows
  try {
    const answers = []
    if (calls.length > 1) await client.query('begin')
    for (const { text, values } of calls) {
      const { rows } = await client.query(text.replaceAll('__schema__', config.schema), values)
      answers.push({ id: Number(rows[0].id) })
    }
    await delay(lateMs)
    if (calls.length > 1) await client.query(commits ? 'commit' : 'rollback')
    isBroken = false
    return answers
  } catch (error) {
    // A statement that was refused changed nothing, and a connection that broke may have.
    const isRefused = /^(22|23|40|P0|53)/.test(error.code ?? '')
    throw Object.assign(error, { code: isRefused ? `refused ${error.code}` : 'COMMIT_UNKNOWN' })
  } finally {
    client.release(isBroken)
  }
}
