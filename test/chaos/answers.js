/** The final answers of the public API, which the checker reads beside the history. */
import { setTimeout as delay } from 'node:timers/promises'

export async function readAnswers(world) {
  const list = async (path, field) => {
    const all = []
    let cursor
    do {
      const query = `${path.includes('?') ? '&' : '?'}limit=1000${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
      const { json } = await world.insist({ method: 'GET', path: path + query })
      all.push(...json[field])
      cursor = json.next_cursor
    } while (cursor !== undefined)
    return all
  }
  const queues = await readQueues(world)
  return {
    deliveries: await list('/deliveries', 'deliveries'),
    events: await list('/events', 'events'),
    letters: await list('/dlq?include_retried=true', 'dead_letters'),
    stored: await readStored(world),
    queues,
    metrics: await readMetrics(world),
    left: await countLeft(world),
    ledger: await world.query(
      'select event_id::int as id, count(*)::int as rows from __schema__.chaos_ledger group by 1',
    ),
  }
}

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

/** Rows in the tables that hold only what waits or is under way: the API does not show them. */
async function countLeft(world) {
  const left = {}
  for (const table of ['runs', 'lane_queue', 'inbox']) {
    const [{ exists }] = await world.query(`select to_regclass('__schema__.${table}') is not null as exists`)
    if (!exists) continue
    const [{ rows }] = await world.query(`select count(*)::int as rows from __schema__.${table}`)
    left[table] = rows
  }
  return left
}

/** Which of our events each stored one is, by its payload, which no list shows. */
async function readStored(world) {
  const rows = await world.query(
    `select id::text, substring(payload from '"u":([0-9]+)')::int as u from __schema__.events where type not like 'posthorn.%'`,
  )
  return rows.filter(({ u }) => u !== null).map(({ id, u }) => ({ id: Number(id), u }))
}
