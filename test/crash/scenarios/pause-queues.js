/**
 * A queue is paused, drained and resumed under load from several processes: nothing begins while it is held, a drain ends
 * where it began, and nothing is lost, doubled or out of order.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { judge, tally } from '../support/checker.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const operated = 'operated'
/** No attempt begins later than a second after a pause. */
const graceUs = 1_000_000

/** @param {object} options besides the usual: `turns` to take, instead of for how long */
export async function run({ connection, seed, secs, turns = Math.ceil(secs / 3) }) {
  const world = await openWorld({ connection, name: 'pause' })
  const stopSweeping = sweepOften(world.hub)
  try {
    const random = createRandom(seed)
    for (let no = 0; no < 3; no++) await world.startWorker(workerConfig(seed))
    let publishing = true
    const load = { type: 'crash.pause', random: createRandom(seed + 1), keys: 8, pauseMs: 40 }
    const published = publishUntil(() => !publishing, world, load)
    const holds = []
    for (let turn = 0; turn < turns; turn++) holds.push(await holdOnce(world, random, turn))
    publishing = false
    const publications = await published
    await world.untilEmpty(20_000)
    const history = world.history()
    return {
      counts: { published: publications.length, ...tally(history), ...countsOf(holds) },
      violations: [
        ...holds.flatMap((hold) => judgeHold(hold, history, publications)),
        ...judge(history, { published: publications, subscriptions: [operated, 'other'] }),
        ...(await judgeAudit(world, publications.length * 2)),
      ],
    }
  } finally {
    await stopSweeping()
    await world.close()
  }
}

/** The other subscription wants the same events, so that a drain refuses nothing. */
function workerConfig(seed) {
  const behaviour = { kind: 'obedient', msMax: 60 }
  return {
    seed,
    handlers: [operated, 'other'].map((name) => ({
      ...{ pattern: 'crash.pause', options: { name, concurrency: 6 }, behaviour },
    })),
  }
}

async function holdOnce(world, random, turn) {
  const { queues } = world.hub
  const verb = turn % 2 === 0 ? 'pause' : 'drain'
  await delay(random.integer(200, 800))
  await queues[verb](operated)
  const heldAt = monotonicUs()
  const fence = verb === 'drain' ? await fenceOf(world) : 0
  const drainedAt = verb === 'drain' ? await untilDrained(world) : null
  await delay(random.integer(1_200, 2_000))
  const resumedAt = monotonicUs()
  await queues.resume(operated)
  return { verb, heldAt, fence, drainedAt, resumedAt }
}

async function fenceOf(world) {
  const [row] = await world.query('select drain_fence from __schema__.subscriptions where name = $1', [
    operated,
  ])
  return Number(row.drain_fence)
}

async function untilDrained(world) {
  for (let asked = 0; asked < 400; asked++) {
    if ((await world.hub.queues.get(operated, { limit: 0 })).drainedAt !== null) return monotonicUs()
    await delay(50)
  }
  throw new Error('Not drained after 20 s')
}

function countsOf(holds) {
  return {
    pauses: holds.filter(({ verb }) => verb === 'pause').length,
    drains: holds.filter(({ drainedAt }) => drainedAt !== null).length,
  }
}

function judgeHold({ verb, heldAt, fence, drainedAt, resumedAt }, history, publications) {
  const mine = history.filter(({ subscription }) => subscription === operated)
  // Who was publishing as the drain began may be let in with what it finishes.
  const later = new Set(publications.filter(({ beganAt }) => beganAt > heldAt).map(({ id }) => id))
  const isHeld = (id) => verb === 'pause' || (id > fence && later.has(id))
  const early = mine.filter(
    ({ kind, at, id }) => kind === 'begin' && isHeld(id) && at > heldAt + graceUs && at < resumedAt,
  )
  const found = early.map(({ id, at }) => `${verb}: ${id} began ${(at - heldAt) / 1000} ms after it`)
  if (drainedAt === null) return found
  const ended = new Set(mine.filter(({ kind, at }) => kind === 'end' && at < drainedAt).map(({ id }) => id))
  const left = publications.filter(({ id, ackedAt }) => id <= fence && ackedAt < heldAt && !ended.has(id))
  return [...found, ...left.map(({ id }) => `drain: said to be drained without ${id}`)]
}

/** Every delivery was completed, in its first attempt. */
async function judgeAudit(world, deliveries) {
  const [row] = await world.query(`
    select count(*) filter (where settlement = 'completed')::int as completed,
      count(*) filter (where settlement not in ('completed', 'released'))::int as others
    from __schema__.audit`)
  const found = []
  if (row.completed !== deliveries) found.push(`audit: ${row.completed} completed of ${deliveries}`)
  if (row.others > 0) found.push(`audit: ${row.others} records of other kinds`)
  return found
}
