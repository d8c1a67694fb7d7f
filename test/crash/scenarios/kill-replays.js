/**
 * Dead letters are recovered while the processes that do it are killed in the middle of a step: each is sent once more,
 * and none twice, and every lane keeps its order.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const type = 'crash.replay'
const standstillMsMax = 30_000
const batchSize = 500

/** @type {import('../support/scenario.js').Scenario} `ratePerSecond` keeps a small recovery from being one step */
export async function run({ connection, events = 10_000, keys = 100, ratePerSecond }) {
  const world = await openWorld({ connection, name: 'replays' })
  try {
    const handlers = [
      { pattern: type, options: { name: 'replayed', concurrency: 16 }, behaviour: { kind: 'late' } },
    ]
    const worker = await world.startWorker({ hub: { upkeep: false }, handlers })
    const published = await publish(world, { events, keys })
    await world.untilEmpty(standstillMsMax)
    const [{ letters }] = await world.query('select count(*)::int as letters from __schema__.dead_letters')

    const options = { since: new Date(0), ...(ratePerSecond && { ratePerSecond }) }
    await letStepsBeHeld(world)
    const kills = { id: undefined, inAStep: 0, violations: [] }
    // The first step is taken by whoever asks; it ends before the letter that is held.
    const begin = async () => {
      kills.id = (await world.hub.recover('replayed', options)).replay.id
    }
    await killInAStep(world, kills, { hold: holdLetter(world, Math.floor(events * 0.6)), begin })
    await killInAStep(world, kills, { hold: holdSteps, begin: async () => undefined })
    const last = await world.startWorker({ handlers: [] })
    const replay = await untilCompleted(world, kills.id)
    await world.untilEmpty(standstillMsMax)
    await Promise.all([last.stop(), worker.stop()])

    const attempts = world.history().filter(({ kind, attempt }) => kind === 'begin' && attempt > 1)
    return {
      counts: {
        ...{ published: published.length, letters, sentAgain: replay.done, killsInAStep: kills.inAStep },
        lanes: new Set(attempts.map(({ key }) => key)).size,
      },
      violations: [
        ...kills.violations,
        ...(letters === events ? [] : [`${letters} of ${events} events were buried at first`]),
        ...(replay.done === events ? [] : [`${replay.done} of ${events} were sent, says the replay`]),
        ...judgeAttempts(attempts, published),
        ...(await judgeAudit(world, events)),
      ],
    }
  } finally {
    await world.close()
  }
}

async function publish({ hub }, { events, keys }) {
  const published = []
  for (let first = 0; first < events; first += batchSize) {
    const batch = Array.from({ length: Math.min(batchSize, events - first) }, (_, place) => ({
      ...{ type, payload: { sequence: first + place }, orderingKey: `k${(first + place) % keys}` },
    }))
    const answers = await hub.publishMany(batch)
    published.push(...answers.map(({ id }, place) => ({ id, key: batch[place].orderingKey })))
  }
  return published
}

/** Whoever comes to it stops before anything is sent. */
function holdLetter({ schema }, place) {
  return async (client) => {
    const { rows } = await client.query(
      `select id from ${schema}.dead_letters where redriven_at is null order by event_id offset $1 limit 1`,
      [place],
    )
    await client.query(`select id from ${schema}.dead_letters where id = $1 for update`, [rows[0].id])
  }
}

const stepsLock = 47_110_815

/** From now on a step can be held when all is sent, and nothing of it is counted yet. */
async function letStepsBeHeld(world) {
  await world.query(
    `create function __schema__.hold_step() returns trigger language plpgsql as
    'begin perform pg_advisory_xact_lock(${stepsLock}); return new; end'`,
  )
  await world.query(
    `create trigger hold_step before update on __schema__.replays
    for each row execute function __schema__.hold_step()`,
  )
}

async function holdSteps(client) {
  await client.query(`select pg_advisory_xact_lock(${stepsLock})`)
}

/** Kills a process in the middle of a step. What it had done must be as if it had not begun. */
async function killInAStep(world, kills, { hold, begin }) {
  const client = await world.pool.connect()
  try {
    await client.query('begin')
    await hold(client)
    await begin()
    const sender = await world.startWorker({ handlers: [] })
    await until('nobody came to what is held', async () => (await waitsForALock(world, sender)) > 0)
    await sender.kill()
    kills.inAStep++
    // Its statement would go on by itself, as it waits and sees no end of its client.
    await until('a dead process is still there', async () => (await endConnections(world, sender)) === 0)
    await client.query('rollback')
  } finally {
    client.release()
  }
  const [{ done, sent, redriven }] = await world.query(
    `select (select done::int from __schema__.replays where id = $1) as done,
      (select count(*)::int from __schema__.audit where settlement = 'redriven') as sent,
      (select count(*)::int from __schema__.dead_letters where redriven_at is not null) as redriven`,
    [kills.id],
  )
  if (done !== sent || done !== redriven) {
    kills.violations.push(
      `after a kill ${done} are counted, ${sent} were sent, ${redriven} letters are marked`,
    )
  }
}

async function waitsForALock(world, { name }) {
  const [{ waiting }] = await world.query(
    `select count(*)::int as waiting from pg_stat_activity
    where application_name = $1 and wait_event_type = 'Lock'`,
    [name],
  )
  return waiting
}

/** @returns how many there still were */
async function endConnections(world, { name }) {
  const [{ open }] = await world.query(
    `select count(pg_terminate_backend(pid))::int as open from pg_stat_activity where application_name = $1`,
    [name],
  )
  return open
}

async function untilCompleted(world, id) {
  let replay
  let done = -1
  await until('the recovery does not go on', async () => {
    replay = await world.hub.getReplay(id)
    const moved = replay.done !== done
    done = replay.done
    return replay.state === 'completed' || (moved ? 'moved' : false)
  })
  return replay
}

/** @param {() => Promise<boolean | 'moved'>} ask what moves has its time once more */
async function until(complaint, ask) {
  let movedAt = monotonicUs()
  for (;;) {
    const answer = await ask()
    if (answer === true) return
    if (answer === 'moved') movedAt = monotonicUs()
    if (monotonicUs() > movedAt + standstillMsMax * 1000) throw new Error(complaint)
    await delay(20)
  }
}

/** Each at least once, and the first time in the order of its lane. */
function judgeAttempts(attempts, published) {
  const lanes = new Map()
  for (const { id, key } of attempts) lanes.set(key, (lanes.get(key) ?? new Set()).add(id))
  const expected = new Map()
  for (const { id, key } of published) expected.set(key, [...(expected.get(key) ?? []), id])
  return [...expected].flatMap(([key, ids]) => {
    const came = [...(lanes.get(key) ?? [])]
    const missing = ids.filter((id) => !lanes.get(key)?.has(id))
    if (missing.length > 0) return [`lane ${key}: ${missing.length} never came again, such as ${missing[0]}`]
    const wrong = came.findIndex((id, place) => id !== ids[place])
    return wrong === -1 ? [] : [`lane ${key}: ${came[wrong]} came in the place of ${ids[wrong]}`]
  })
}

async function judgeAudit(world, events) {
  const [{ once, completed }] = await world.query(
    `select count(*) filter (where a.sent = 1)::int as once, count(*) filter (where a.completed = 1)::int as completed
    from (
      select a.event_id, count(*) filter (where a.settlement = 'redriven') as sent,
        count(*) filter (where a.settlement = 'completed') as completed
      from __schema__.audit a
      group by a.event_id
    ) as a`,
  )
  return [
    ...(once === events ? [] : [`${once} of ${events} were sent exactly once more`]),
    ...(completed === events ? [] : [`${completed} of ${events} were completed exactly once`]),
  ]
}
