/** The final answers of the public API, which the checker reads beside the history. */
import { setTimeout as delay } from 'node:timers/promises'
import { digestChars } from './payload-text.js'

export async function readAnswers(world) {
  const list = (path, field) => walkList(world, path, field, 1_000)
  const queues = await readQueues(world)
  const deliveries = await list('/deliveries', 'deliveries')
  const events = await list('/events', 'events')
  const letters = await list('/dlq?include_retried=true', 'dead_letters')
  const stored = await readStored(world)
  return {
    ...{ deliveries, events, letters, stored, queues },
    walks: await walkLists(world, { deliveries, events, letters, stored }),
    metrics: await readMetrics(world),
    left: await countLeft(world),
    ledger: await world.query(
      'select event_id::int as id, count(*)::int as rows from __schema__.chaos_ledger group by 1',
    ),
  }
}

async function walkList(world, path, field, limit) {
  const all = []
  let cursor
  do {
    const query = `${path.includes('?') ? '&' : '?'}limit=${limit}${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
    const { json } = await world.insist({ method: 'GET', path: path + query })
    all.push(...json[field])
    cursor = json.next_cursor
  } while (cursor !== undefined)
  return all
}

const eventStatuses = [
  'PENDING',
  'PROCESSING',
  'COMPLETED',
  'COMPLETED_WITH_ERRORS',
  'FAILED',
  'EXPIRED',
  'CANCELLED',
]
const deliveryStatuses = ['pending', 'delivering', 'failed', 'delivered', 'dlq', 'expired', 'cancelled']

/** The same lists from the other end, and in parts that make up the whole. The first walk of a kind is what others must meet. */
async function walkLists(world, { deliveries, events, letters, stored }) {
  const parts = async (paths, field) => {
    const all = []
    for (const path of paths)
      all.push(...(await walkList(world, path, field, world.random.integer(150, 1_000))))
    return all
  }
  const by = (path, name, values) => values.map((value) => `${path}${name}=${value}`)
  // By id: a name means the subscription that has it now.
  const subscribers = [...new Set(deliveries.map(({ subscriber_id: id }) => id))]
  const ofEvents = (path, list) => ({ of: 'events', path, ...named(list, ({ id }) => id) })
  const ofDeliveries = (path, list) => ({ of: 'deliveries', path, ...named(list, (one) => one.event_id) })
  const ofLetters = (path, list) => ({ of: 'letters', path, ...named(list, (one) => one.event_id) })
  return [
    ofEvents('the database', stored),
    ofEvents('/events', events),
    ofEvents('/events, backwards', await parts(['/events?order=desc'], 'events')),
    ofEvents('/events by status', await parts(by('/events?', 'status', eventStatuses), 'events')),
    ofDeliveries('/deliveries', deliveries),
    ofDeliveries('/deliveries, backwards', await parts(['/deliveries?order=desc'], 'deliveries')),
    ofDeliveries(
      '/deliveries by status',
      await parts(by('/deliveries?', 'status', deliveryStatuses), 'deliveries'),
    ),
    ofDeliveries(
      '/deliveries by subscriber',
      await parts(by('/deliveries?', 'subscriber', subscribers), 'deliveries'),
    ),
    ofLetters('/dlq', letters),
    ofLetters('/dlq, backwards', await parts(['/dlq?include_retried=true&order=desc'], 'dead_letters')),
    ofLetters(
      '/dlq by kind',
      await parts(by('/dlq?include_retried=true&', 'kind', ['buried', 'expired']), 'dead_letters'),
    ),
  ]
}

const named = (list, eventIdOf) => ({ names: list.map(({ id }) => id), eventIds: list.map(eventIdOf) })

const persistedMs = 10_000

/** A memory queue tells what it last persisted, and nobody sees what waits in it but itself: it is given a moment. */
async function readQueues(world) {
  const until = performance.now() + persistedMs
  for (;;) {
    const { json } = await world.insist({ method: 'GET', path: '/queues?limit=100&events=0' })
    const memory = json.queues.find(({ storage }) => storage === 'memory')
    if (!(memory?.depth > 0) || performance.now() > until) return json.queues
    await delay(250)
  }
}

/** Of every process that has any, servers and workers: each does its share of the upkeep. */
async function readMetrics(world) {
  const servers = await Promise.all(
    world.ports.map((port) => world.insist({ method: 'GET', path: '/metrics', port })),
  )
  const workers = await Promise.all(
    [...world.of('worker'), ...world.of('memory')].map((slot) => slot.command('scrape')),
  )
  return [...servers.map(({ json }) => json), ...workers.map(({ value }) => value)].filter(
    (one) => typeof one === 'string',
  )
}

/**
 * Rows that only what waits or is under way may have, by table: the API does not show them. Of `starts`, those of events that
 * are neither stored nor waiting for their records to be pruned; of memory queues, those that no compaction will remove.
 */
const leftovers = {
  runs: 'runs',
  lane_queue: 'lane_queue',
  inbox: 'inbox',
  ready_tags: 'ready_tags',
  holding_queues: 'holding_queues',
  queue_tallies: 'queue_tallies',
  starts: `starts t where not exists (select from __schema__.events e where e.id = t.event_id)
    and not exists (select from __schema__.removals r where t.event_id = any(r.event_ids))`,
  memory_events: `memory_events m where not exists (
    select from __schema__.memory_queues q where q.subscription = m.subscription and m.event_id <= q.checkpoint)`,
  memory_settled: `memory_settled m where not exists (
    select from __schema__.memory_queues q where q.subscription = m.subscription and m.event_id <= q.checkpoint)`,
}

const tidiedMs = 10_000

/** Upkeep adds up tallies and removes notes in its own time: it is given a moment. */
async function countLeft(world) {
  const until = performance.now() + tidiedMs
  for (;;) {
    const left = {}
    for (const [table, from] of Object.entries(leftovers)) {
      const [{ rows }] = await world.query(`select count(*)::int as rows from __schema__.${from}`)
      left[table] = rows
    }
    if (Object.values(left).every((rows) => rows === 0) || performance.now() > until) return left
    await delay(250)
  }
}

/** Which of our events each stored one is, by its payload, which no list shows. */
async function readStored(world) {
  const rows = await world.query(
    `select id::text, type, substring(payload from '"u":([0-9]+)')::int as u,
      left(encode(sha256(convert_to(payload, 'UTF8')), 'hex'), ${digestChars}) as hash
    from __schema__.events where type not like 'posthorn.%'`,
  )
  return rows.filter(({ u }) => u !== null).map(({ id, ...rest }) => ({ id: Number(id), ...rest }))
}
