/**
 * No wake-up is lost when a publish races the settlement that empties its lane. Polling is out of reach (once a
 * minute), so a lost one shows as a lane that has work and stands still.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createPosthorn } from '../../../dist/index.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

/**
 * In a crowd a busy neighbour wakes whoever has missed his own call, so there only a call that was never made
 * shows: by the database. A lonely lane has nobody to help it, and shows what the process misses as well.
 */
const arenas = [
  { hubs: 1, lanes: 32, concurrency: 16, share: 0.5 },
  { hubs: 2, lanes: 16, concurrency: 16, share: 0.3 },
  { hubs: 1, lanes: 1, concurrency: 1, share: 0.05 },
  { hubs: 1, lanes: 1, concurrency: 4, share: 0.05 },
  { hubs: 1, lanes: 2, concurrency: 1, share: 0.05 },
  { hubs: 2, lanes: 1, concurrency: 1, share: 0.05 },
]
const stallMs = 2_000
const stallsMax = 5

/** @param {object} options besides the usual: how many rounds in all, instead of how long */
export async function run({ connection, seed, secs, rounds = secs * 1_000 }) {
  const results = await Promise.all(
    arenas.map((arena, n) => {
      return race({
        connection,
        seed: seed + n,
        arena,
        roundsMax: Math.ceil((rounds * arena.share) / arena.lanes),
      })
    }),
  )
  const sum = (what) => results.reduce((total, result) => total + result[what], 0)
  return {
    counts: {
      rounds: sum('rounds'),
      publishedWhileTheLaneWasBusy: sum('busy'),
      slowestMs: Math.max(...results.map(({ slowestMs }) => slowestMs)),
    },
    violations: results.flatMap(({ stalls }) => stalls),
  }
}

async function race({ connection, seed, arena, roundsMax }) {
  const world = await openWorld({ connection, name: 'wake' })
  const calls = new Map()
  const result = { rounds: 0, busy: 0, slowestMs: 0, stalls: [] }
  const hubs = []
  try {
    for (let n = 0; n < arena.hubs; n++)
      hubs.push(await startRacer(world, { n, calls, concurrency: arena.concurrency }))
    const lanes = Array.from({ length: arena.lanes }, (_, lane) => {
      return raceInLane({ hubs, lane, calls, result, random: createRandom(seed * 100 + lane), roundsMax })
    })
    await Promise.all(lanes)
    return result
  } finally {
    for (const hub of hubs) await hub.stop()
    await world.close()
  }
}

async function startRacer({ connection, schema }, { n, calls, concurrency }) {
  const hub = await createPosthorn({
    // Durability is not the question, and answers that come quickly make for closer races.
    database: { ...connection, options: '-c synchronous_commit=off' },
    schema,
    log: false,
    upkeep: false,
    pollMs: 60_000,
    idlePollMs: 60_000,
    poolMax: 6,
    workerId: `racer ${n}`,
  })
  hub.on('crash.wake', { name: 'racer', concurrency, leaseMs: 60_000 }, async (event) => {
    const { lane, round, workMs } = event.payload
    calls.get(`${lane} ${round}`)('begun')
    // Not every handler takes time: some are over in the same turn of the event loop.
    if (workMs > 0) await delay(workMs)
    calls.get(`${lane} ${round}`)('ended')
  })
  await hub.start()
  return hub
}

/** Each publish aims at the moment when the settlement of the one before it empties the lane. */
async function raceInLane({ hubs, lane, calls, result, random, roundsMax }) {
  let before = Promise.resolve()
  for (let round = 0; round < roundsMax && result.stalls.length < stallsMax; round++) {
    const begun = signal()
    const ended = signal()
    calls.set(`${lane} ${round}`, (what) => (what === 'begun' ? begun : ended).give())
    // While the one before still runs, right after it, or a little after its settlement should be through: then
    // its settlement meets the search for this one in whatever state it is.
    if (random.chance(0.5)) await before
    if (random.chance(0.5)) await delay(random.next() * 4)
    if (!(await isOver(before))) result.busy++
    const workMs = random.chance(0.3) ? 0 : random.integer(1, 14)
    await random
      .pick(hubs)
      .publish({ type: 'crash.wake', payload: { lane, round, workMs }, orderingKey: `lane ${lane}` })
    const at = monotonicUs()
    if ((await Promise.race([begun.given, delay(stallMs, 'stalled', { ref: false })])) === 'stalled') {
      result.stalls.push(`stalled: lane ${lane} in round ${round}, ${hubs.length} hubs`)
      for (const hub of hubs) hub.wake()
      if ((await Promise.race([begun.given, delay(stallMs, 'dead', { ref: false })])) === 'dead') return
    }
    result.slowestMs = Math.max(result.slowestMs, Math.round((monotonicUs() - at) / 1000))
    result.rounds++
    before = ended.given
  }
  await before
}

function signal() {
  let give = () => undefined
  const given = new Promise((resolve) => {
    give = resolve
  })
  return { given, give }
}

function isOver(promise) {
  return Promise.race([promise.then(() => true), Promise.resolve().then(() => false)])
}
