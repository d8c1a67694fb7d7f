/**
 * The driver with two servers instead of one: a primary is killed and its standby promoted, under the driver's processes and
 * operations, all of which name both servers in one URL. What the driver judges holds, and more: see failover-rules.js.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createRandom } from '../crash/support/random.js'
import { monotonicUs } from '../crash/support/recorder.js'
import { startReplicas } from '../support/replicas.js'
import { readAnswers } from './answers.js'
import { judge } from './checker/index.js'
import { countFailover, judgeFailover, withoutLostAnswers } from './failover-rules.js'
import { heal } from './heal.js'
import { operateUntil, settleDown, watchDatabase } from './main.js'
import { operations } from './operations/index.js'
import { planEvent } from './operations/planning.js'
import { publishByHttp, publishByLibrary } from './operations/publishing.js'
import { publishBySql } from './operations/speaking.js'
import { openWorld } from './world.js'

const lanesPerWay = 3
const operators = 2
/** Outcomes that end or hold up a whole process, and with it every lane that it has. */
const spares = ['crash', 'block']
/** Operations that halt or change what others go by: how long a lane stands must be the failover's doing alone. */
const leftAside = /^(queue|subscriber|handler|memory|type|prune|purge|library\.((un)?subscribe|purge|queue))/

/**
 * @param {object} options
 * @param {number} options.seed
 * @param {number} options.secs of which half before the failover
 * @param {boolean} options.isSynchronous
 * @param {string} options.programs a folder: see `findPrograms`
 */
export async function runFailover({ seed, secs, isSynchronous, programs, standstillMs }) {
  const replicas = await startReplicas({ programs })
  try {
    const world = await openWorld({ connection: replicas.url, seed, spares })
    const watch = new AbortController()
    void watchDatabase(world, watch.signal)
    try {
      if (isSynchronous) await replicas.synchronize(true)
      const times = await failOver(world, replicas, { secs, isSynchronous })
      await heal(world)
      const drained = await settleDown(world, { standstillMs })
      const answers = await readAnswers(world)
      const history = world.history()
      const judged = isSynchronous ? history : withoutLostAnswers(history, { ...times, answers })
      const violations = [
        ...drained.violations,
        ...judge(judged, answers),
        ...judgeFailover(history, { ...times, answers, isSynchronous }),
      ]
      const counts = {
        ...countFailover(history, { ...times, answers }),
        drainedMs: Math.round(drained.ms ?? 0),
      }
      // Both judge the numbers of lanes: the one without what the standby lacks, the other with it.
      const told = new Map(violations.map((one) => [one.text, one]))
      return { violations: [...told.values()], counts, history }
    } finally {
      watch.abort()
      await world.close()
    }
  } finally {
    await replicas.close()
  }
}

/** Works, kills, promotes, and works on. */
async function failOver(world, replicas, { secs, isSynchronous }) {
  const random = createRandom(world.seed)
  const endsAt = monotonicUs() + secs * 1e6
  let isEnded = false
  const isOver = () => isEnded
  const names = Object.keys(operations).filter((name) => !leftAside.test(name))
  const working = [
    ...Array.from({ length: operators }, (_, no) => operateUntil(world, no, names, isOver)),
    ...ways.flatMap(([way, publish]) =>
      Array.from({ length: lanesPerWay }, (_, no) =>
        publishLane(world, { family: 'probe', key: `${way}-${no}`, publish, isOver }),
      ),
    ),
    // What a receiver has seen of them tells whether the new primary gives a number again that the old one gave.
    ...Array.from({ length: lanesPerWay }, (_, no) =>
      publishLane(world, { family: 'hook', key: `webhook-${no}`, publish: publishByHttp, isOver }),
    ),
  ]
  await delay((secs * 1_000) / 2)
  const fields = { fault: 'promote', isSynchronous }
  world.record('fault', { ...fields, phase: 'begins' })
  // What an asynchronous standby has not got yet is lost.
  if (!isSynchronous) {
    replicas.link.freeze()
    await delay(random.integer(50, 400))
  }
  const killedAt = monotonicUs()
  replicas.primary.kill()
  await delay(random.integer(0, 600))
  await replicas.promote()
  const promotedAt = monotonicUs()
  const heardAt = await lastHeardAt(replicas.standby)
  world.record('fault', { ...fields, phase: 'ends' })
  // A slow machine needs longer until somebody has published again.
  const isBack = () =>
    world
      .history()
      .some(
        ({ kind, type, at, answers }) =>
          kind === 'answer' && type === 'ok' && answers !== undefined && at > promotedAt,
      )
  while (monotonicUs() < endsAt || !isBack()) await delay(500)
  isEnded = true
  await Promise.all(working)
  return { heardAt, killedAt, promotedAt }
}

/** When the last commit that the standby has was made: whatever was answered before that, it has as well. */
async function lastHeardAt(standby) {
  const [{ us }] = await standby.query(
    'select floor(extract(epoch from pg_last_xact_replay_timestamp()) * 1e6)::float8 as us',
  )
  const wallUs = Date.now() * 1_000
  return monotonicUs() - (wallUs - us)
}

const ways = [
  ['library', publishByLibrary],
  ['http', publishByHttp],
  ['sql', publishBySql],
]

/** One lane of a careful producer: the next event comes when this one is stored, and one of unknown fate is sent again. */
async function publishLane(world, { family, key, publish, isOver }) {
  const random = createRandom(world.seed)
  const plain = { tags: null, delayMs: null, maxRetries: null, ckey: null, expiresMs: null }
  while (!isOver()) {
    const o = family === 'hook' ? [204] : []
    const planned = planEvent(world, random, family, { ...plain, key, payload: { o, ms: 0 } })
    const one = { ...planned, idem: `lane-${planned.u}` }
    while ((await publish(world, random, [one])).type !== 'ok') await delay(20)
    await delay(15)
  }
}
