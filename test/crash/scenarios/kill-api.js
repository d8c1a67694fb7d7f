/**
 * API processes are killed under load. Producers send again with the same idempotency key what was not answered, and
 * workers lease and settle over HTTP. Every acknowledged event exists once, every event of unknown fate at most once,
 * nothing is lost or completed twice, and lanes keep their order.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { openApis } from '../support/apis.js'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { produceUntil } from '../support/producing.js'
import { startPulling } from '../support/pulling.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld, sweepOften } from '../support/world.js'

const apisMax = 2
const producersMax = 12
const workersMax = 4
const leaseSecs = 3
/** However slow the machine: fewer would show nothing. */
const killsMin = 3
const type = 'crash.api'
const subscription = 'pulled'

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'api' })
  const stopSweeping = sweepOften(world.hub)
  try {
    const random = createRandom(seed)
    await watchLeases(world)
    await slowDown(world)
    await world.hub.subscribe(type, {
      name: subscription,
      leaseMs: leaseSecs * 1000,
      retry: { baseMs: 20, maxMs: 20, failuresMax: 1000 },
    })
    const apis = await openApis(world, apisMax)
    const endsAt = monotonicUs() + secs * 1e6
    const kills = []
    const isOver = () => monotonicUs() >= endsAt && kills.length >= killsMin
    const producing = Array.from({ length: producersMax }, (_, n) =>
      produceUntil(isOver, apis, { type, random: createRandom(seed * 100 + n), name: `p${n}`, keys: 16 }),
    )
    const workers = Array.from({ length: workersMax }, (_, n) =>
      startPulling(apis, {
        name: `w${n}`,
        random: createRandom(seed * 100 + 50 + n),
        record: world.record,
        subscription,
        leaseSecs,
      }),
    )
    while (!isOver()) {
      await delay(random.integer(100, 400))
      // Half of the blows are aimed, the others come whenever.
      const ready = (name) => (kills.length % 2 === 0 ? untilStoring(world, name) : undefined)
      kills.push(await apis.killOne(random, ready))
    }
    const produced = await Promise.all(producing)
    await world.untilEmpty(20_000)
    const pulled = await Promise.all(workers.map((worker) => worker.stop()))
    const exits = await apis.stop()
    return await report(world, { kills, produced, pulled, exits })
  } finally {
    await stopSweeping()
    await world.close()
  }
}

/** As if the database were farther away: so there is a time in which to hit what is being stored. */
async function slowDown(world) {
  await world.query(`
    create function __schema__.take_time() returns trigger language plpgsql as $$ begin
      perform pg_sleep(random() * 0.05);
      return null;
    end $$;
    create trigger take_time after insert on __schema__.events
      for each statement execute function __schema__.take_time()`)
}

/** Waits a moment for a publish of that process to be under way in the server, which will not stop for its death. */
async function untilStoring(world, name) {
  for (let looks = 0; looks < 100; looks++) {
    const busy = await world.query(
      `select 1 from pg_stat_activity where application_name = $1 and wait_event = 'PgSleep'`,
      [name],
    )
    if (busy.length > 0) return
    await delay(2)
  }
}

async function report(world, { kills, produced, pulled, exits }) {
  const history = world.history()
  const leases = await judgeLeases(world)
  const published = produced.flatMap((one) => one.published)
  const acknowledged = published.filter(({ ackedAt }) => ackedAt !== null)
  const stored = await world.query(
    `select id::int as id, payload::json ->> 'uid' as uid from __schema__.events where type = '${type}'`,
  )
  const asked = (...names) => kills.filter((kill) => kill.some((name) => names.includes(name))).length
  return {
    counts: {
      kills: kills.length,
      killsThatHitAPublish: asked('events', 'batch'),
      killsThatHitASettlement: asked('complete', 'fail', 'settle'),
      killsThatHitAPoll: asked('subscribe'),
      acknowledged: acknowledged.length,
      stored: stored.length,
      ...sum(produced.map(({ counts }) => counts)),
      ...sum(pulled.map(({ counts }) => counts)),
      takenBack: leases.expiries.length,
      ...tally(history),
    },
    violations: [
      ...[...produced, ...pulled].flatMap(({ violations }) => violations),
      ...judgeStored(published, stored),
      ...judge(history, {
        published: [...acknowledged, ...unknownOf(published, stored)],
        subscriptions: [subscription],
        expiries: leases.expiries,
      }),
      ...leases.violations,
      ...(await judgeAudit(world)),
      ...exits.filter(({ code }) => code !== 0).map((exit) => `an API ended with ${JSON.stringify(exit)}`),
    ],
  }
}

/** One event for each key that was acknowledged, at most one where nobody knows, none where it was refused. */
function judgeStored(published, stored) {
  const idsOf = new Map()
  for (const { id, uid } of stored) idsOf.set(uid, [...(idsOf.get(uid) ?? []), id])
  const known = new Set(published.map(({ uid }) => uid))
  const strangers = [...idsOf.keys()].filter((uid) => !known.has(uid))
  return [
    ...strangers.map((uid) => `phantom: ${uid} was stored and never sent`),
    ...published.flatMap(({ uid, id, doubt }) => {
      const ids = idsOf.get(uid) ?? []
      if (ids.length > 1) return [`stored twice: ${uid} as ${ids.join(', ')}`]
      if (id !== null && ids[0] !== id) return [`gone: ${uid} was acknowledged as event ${id}`]
      if (id === null && !doubt && ids.length > 0) return [`refused and stored: ${uid} as ${ids[0]}`]
      return []
    }),
  ]
}

/** What was stored though nobody was told: it is handled all the same, and in any order with its own kind. */
function unknownOf(published, stored) {
  const acknowledged = new Set(published.filter(({ id }) => id !== null).map(({ uid }) => uid))
  return stored
    .filter(({ uid }) => !acknowledged.has(uid))
    .map(({ id }) => ({ id, key: null, beganAt: 0, ackedAt: null }))
}

/** What the database itself wrote down: one completion of each. */
async function judgeAudit(world) {
  const rows = await world.query(`
    select e.id, count(a.id)::int as completions
    from __schema__.events e
    left join __schema__.audit a on a.event_id = e.id and a.settlement = 'completed'
    group by e.id having count(a.id) <> 1 limit 5`)
  return rows.map(({ id, completions }) => `audit: event ${id} has ${completions} completions`)
}

function sum(tallies) {
  const total = {}
  for (const one of tallies) {
    for (const [what, count] of Object.entries(one)) total[what] = (total[what] ?? 0) + count
  }
  return total
}
