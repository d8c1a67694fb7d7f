/**
 * The database server is killed under load and comes back. No acknowledged publish is lost, nothing whose
 * settlement was acknowledged runs again, and every process lives through it and goes on. Leases are committed
 * asynchronously on purpose: what was under way may run again.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startEmbedded } from '../../../dist/db/embedded.js'
import { judge, tally } from '../support/checker.js'
import { judgeLeases, watchLeases } from '../support/leases.js'
import { publishUntil } from '../support/publishing.js'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const leaseMs = 1_000
/** Back within ten seconds after the server; here it counts from the kill on. */
const backMsMax = 10_000

/** A server of its own, whatever connection is given: nobody else should suffer. */
export async function run({ seed, secs }) {
  const directory = mkdtempSync(join(tmpdir(), 'posthorn-crash-'))
  const server = await startEmbedded({ dataDirectory: join(directory, 'data') })
  const world = await openWorld({ connection: server.connection, name: 'outage' })
  try {
    const random = createRandom(seed)
    await watchLeases(world)
    const workers = await Promise.all([1, 2].map(() => world.startWorker(workerConfig(seed))))
    const endsAt = monotonicUs() + secs * 1e6
    const publishing = publishUntil(endsAt, world, {
      type: 'crash.outage',
      random: createRandom(seed + 1),
      keys: 8,
    })
    const outages = []
    do {
      await delay(random.integer(500, 1_500))
      outages.push({ ...killServer(server), backMs: await untilBack(world, workers) })
    } while (monotonicUs() < endsAt)
    const published = await publishing
    await world.untilEmpty(15_000)
    const exits = await Promise.all(workers.map((worker) => worker.stop()))
    return await report(world, { published, outages, exits })
  } finally {
    await world.close()
    await server.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

function workerConfig(seed) {
  const options = {
    name: 'outage',
    concurrency: 8,
    leaseMs,
    retry: { baseMs: 20, maxMs: 20, failuresMax: 1000 },
  }
  return {
    seed,
    handlers: [
      { pattern: 'crash.outage', options, behaviour: { kind: 'mixed', msMax: 80, failShare: 0.05 } },
    ],
  }
}

/** The postmaster only: its backends notice and follow. Whatever it had not yet written is gone. */
function killServer({ dataDirectory }) {
  const pid = Number(readFileSync(join(dataDirectory, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
  const at = monotonicUs()
  process.kill(pid, 'SIGKILL')
  return { at }
}

/** Until each worker has had a settlement acknowledged, and a publish was: in ms since the kill. */
async function untilBack(world, workers) {
  const killedAt = monotonicUs()
  const waiting = new Set(workers.map(({ pid }) => pid))
  while (monotonicUs() < killedAt + 3 * backMsMax * 1000) {
    await delay(50)
    // What was on its way when the server was killed may still be answered.
    const since = world.history().filter(({ kind, at }) => kind === 'settled' && at > killedAt + 300_000)
    for (const { pid } of since) waiting.delete(pid)
    if (waiting.size === 0) return Math.round((monotonicUs() - killedAt) / 1000)
  }
  throw new Error(`Not back ${3 * backMsMax} ms after the database was killed: ${[...waiting].join(', ')}`)
}

async function report(world, { published, outages, exits }) {
  const history = world.history()
  const leases = await judgeLeases(world)
  const underWay = outages.map(({ at }) => countUnderWay(history, at))
  const slow = outages.filter(({ backMs }) => backMs > backMsMax)
  const stored = new Set(
    (await world.query('select id::int as id from __schema__.events')).map(({ id }) => id),
  )
  const acknowledged = published.filter(({ ackedAt }) => ackedAt !== null)
  return {
    counts: {
      acknowledged: acknowledged.length,
      ofUnknownFate: published.length - acknowledged.length,
      stored: stored.size,
      outages: outages.length,
      outagesThatHitALease: underWay.filter((count) => count > 0).length,
      slowestBackMs: Math.max(...outages.map(({ backMs }) => backMs)),
      ...tally(history),
    },
    violations: [
      ...judge(history, {
        published: [...acknowledged, ...unknownOf(stored, acknowledged)],
        subscriptions: ['outage'],
        expiries: leases.expiries,
        outages: outages.map(({ at }) => ({ from: at, to: at + leaseMs * 1_500 })),
      }),
      ...leases.violations,
      ...acknowledged
        .filter(({ id }) => !stored.has(id))
        .map(({ id }) => `gone: event ${id} was acknowledged`),
      ...slow.map(({ backMs }) => `slow: back after ${backMs} ms`),
      ...exits.filter(({ code }) => code !== 0).map((exit) => `a worker ended with ${JSON.stringify(exit)}`),
    ],
  }
}

function countUnderWay(history, at) {
  const begun = new Map()
  for (const record of history) {
    if (record.at > at) break
    if (record.kind === 'begin') begun.set(`${record.pid} ${record.no}`, record)
    if (record.kind === 'end') begun.delete(`${record.pid} ${record.no}`)
  }
  return begun.size
}

/** What was stored though nobody heard of it: it may be handled or not, and in any order with its own kind. */
function unknownOf(stored, acknowledged) {
  const known = new Set(acknowledged.map(({ id }) => id))
  return [...stored]
    .filter((id) => !known.has(id))
    .map((id) => ({ id, key: null, beganAt: 0, ackedAt: null }))
}
