/** However many publish with one idempotency key at once, in however many processes, there is one event. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const processesMax = 4
const callers = 64

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'onekey' })
  try {
    await world.hub.subscribe('crash.key', { name: 'keyed' })
    const publishers = await Promise.all(
      Array.from({ length: processesMax }, () => world.startProcess('publisher.js', {})),
    )
    const endsAt = monotonicUs() + secs * 1e6
    const result = { rounds: 0, rolledBack: 0, waitedForTheFirst: 0, violations: [] }
    while (monotonicUs() < endsAt || result.rounds < 2) {
      const key = `key ${seed} ${result.rounds++}`
      await playRound(world, publishers, {
        key,
        first: result.rounds % 2 === 0 ? 'commit' : 'rollback',
        result,
      })
    }
    return {
      counts: {
        rounds: result.rounds,
        publishes: result.rounds * (callers + 1),
        rolledBack: result.rolledBack,
        roundsThatWaitedForTheFirst: result.waitedForTheFirst,
      },
      violations: result.violations,
    }
  } finally {
    await world.close()
  }
}

async function playRound(world, publishers, { key, first, result }) {
  const event = { type: 'crash.key', payload: { key }, idempotencyKey: key }
  const client = await world.pool.connect()
  try {
    await client.query('begin')
    const opening = await world.hub.publish(event, { tx: client })
    const answering = publishers.map((publisher) => publisher.answer())
    for (const publisher of publishers) {
      publisher.send({ events: Array.from({ length: callers / processesMax }, () => event) })
    }
    if (await untilSomebodyWaits(world)) result.waitedForTheFirst++
    await client.query(first)
    if (first === 'rollback') result.rolledBack++
    const answers = (await Promise.all(answering)).flat()
    result.violations.push(...judgeRound({ key, first, opening, answers, stored: await stored(world, key) }))
  } finally {
    client.release()
  }
}

function judgeRound({ key, first, opening, answers, stored }) {
  const found = []
  const ids = new Set(answers.map(({ id }) => id))
  const fresh = answers.filter(({ replayed }) => !replayed).length
  if (answers.length !== callers) found.push(`${key}: ${answers.length} of ${callers} were answered`)
  if (ids.size !== 1) found.push(`${key}: ${ids.size} ids were answered`)
  if (fresh !== (first === 'commit' ? 0 : 1))
    found.push(`${key}: ${fresh} were told that theirs is the first`)
  if (ids.has(opening.id) !== (first === 'commit'))
    found.push(`${key}: the id of the first, which did ${first}`)
  if (stored.events !== 1) found.push(`${key}: ${stored.events} events are stored`)
  if (stored.deliveries !== 1) found.push(`${key}: ${stored.deliveries} deliveries are owed`)
  return found
}

async function untilSomebodyWaits(world) {
  for (let asked = 0; asked < 200; asked++) {
    const [{ waiting }] = await world.query(
      `select count(*)::int as waiting from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
    )
    if (waiting >= processesMax) return true
    await delay(10)
  }
  return false
}

async function stored(world, key) {
  const [row] = await world.query(
    `with mine as (select e.id from __schema__.events e where e.payload::json ->> 'key' = $1)
    select (select count(*) from mine)::int as events,
      (select count(*) from mine m join __schema__.runs r on m.id = any(r.event_ids))::int as deliveries`,
    [key],
  )
  return row
}
