/** Safety, heal, liveness, judgement: one run of the driver. */
import { setTimeout as delay } from 'node:timers/promises'
import { createRandom } from '../crash/support/random.js'
import { monotonicUs } from '../crash/support/recorder.js'
import { readAnswers } from './answers.js'
import { judge } from './checker/index.js'
import { faultNames, faults, harm } from './faults/index.js'
import { heal, untilDrained } from './heal.js'
import { drawOperation, operations } from './operations/index.js'
import { probe, warmUp } from './probing.js'
import { themes } from './themes.js'
import { summarize } from './vacuity.js'
import { openWorld } from './world.js'

/**
 * @param {object} options
 * @param {object} options.connection to a database whose user may do all
 * @param {object} [options.server] whoever started it may kill it
 * @param {number} options.seed
 * @param {number} options.secs of the safety phase
 * @param {number} [options.attemptsMin] on a slow machine the safety phase lasts longer, until there were so many
 * @param {string[]} [options.only] operations and themes; default all
 * @param {string} [options.faults] `all`, `none` or names with commas between them
 * @param {number} [options.standstillMs] after which what does not move is taken to be stuck
 * @param {string[]} [options.victims] roles of processes that are killed and frozen; default all
 * @param {string[]} [options.stopAt] rules: one that is broken before the faults end is enough
 * @param {Set<string>} [options.met] pairs of operation and fault that earlier runs have met: the others are aimed at
 * @param {string} [options.bug] a planted one: see bugs.js
 */
export async function runChaos(options) {
  const { only, stopAt, faults: wanted = 'all', parallel = 4, log = () => undefined } = options
  const startedAt = monotonicUs()
  const world = await openWorld(options)
  const watch = new AbortController()
  try {
    const names = Object.keys(operations).filter(
      (name) => only === undefined || only.some((one) => name.startsWith(one)),
    )
    const bursts = Object.keys(themes).filter(
      (name) => only === undefined || only.some((one) => name.includes(one)),
    )
    void watchDatabase(world, watch.signal)
    const isOver = endOf(world, options)
    await Promise.all([
      ...(names.length === 0
        ? []
        : Array.from({ length: parallel }, (_, n) => operateUntil(world, n, names, isOver))),
      ...(bursts.length === 0 ? [] : [burstUntil(world, bursts, isOver)]),
      ...harmLoops.map((no) => harmUntil(world, no, faultNames(world, wanted), isOver)),
    ])
    const found = judgeEarly(world, stopAt)
    if (found.length > 0) return report(world, { violations: found, startedAt, names: [...names, ...bursts] })
    log('heal')
    await heal(world)
    log('drain')
    const drained = await settleDown(world, options)
    const answers = await readAnswers(world)
    world.keepAnswers(answers)
    const violations = [...drained.violations, ...judge(world.history(), answers)]
    const evidence = await readEvidence(world, violations)
    return {
      ...report(world, { violations, startedAt, answers, names: [...names, ...bursts] }),
      evidence,
    }
  } finally {
    watch.abort()
    await world.close()
  }
}

/** Drains, and is probed. What never drains would hold up the probes too. */
export async function settleDown(world, options) {
  const drained = await untilDrained(world, options)
  if (drained.violations.length > 0) return drained
  await warmUp(world)
  const warm = await untilDrained(world, options)
  if (warm.violations.length > 0) return warm
  await probe(world)
  const probed = await untilDrained(world, options)
  return { ...drained, violations: probed.violations }
}

const evidenceMax = 5
const tables = ['audit', 'dead_letters', 'events']

/** What the tables say of the events concerned: the schema is dropped when the run is over. */
async function readEvidence(world, violations) {
  const ids = [...new Set(violations.flatMap(({ id }) => id ?? []))].slice(0, evidenceMax)
  if (ids.length === 0) return []
  const found = []
  for (const table of tables) {
    const key = table === 'events' ? 'id' : 'event_id'
    const text = `select to_jsonb(t) - 'event_snapshot' - 'subscription_snapshot' - 'payload' as row
      from __schema__.${table} t where t.${key} = any($1)`
    for (const { row } of await world.query(text, [ids])) found.push({ table, ...row })
  }
  return found
}

const prolongedMax = 8

/** @returns tells whether the safety phase is over */
function endOf(world, { secs, attemptsMin = 0 }) {
  let endsAt = monotonicUs() + secs * 1e6
  const attempts = () => world.history().filter(({ kind }) => kind === 'begin').length
  const prolong = async () => {
    for (let times = 0; times < prolongedMax; times++) {
      await delay((endsAt - monotonicUs()) / 1_000 - checkedMs)
      if (attempts() >= attemptsMin) return
      endsAt += secs * 1e6
    }
  }
  if (attemptsMin > 0) void prolong()
  return () => monotonicUs() >= endsAt
}
const checkedMs = 500

function report(world, { violations, startedAt, answers, names }) {
  const history = world.history()
  const secs = (monotonicUs() - startedAt) / 1e6
  return { violations, ...summarize(history, answers), history, answers, names, secs }
}

const noAnswers = { deliveries: [], events: [], letters: [], queues: [], ledger: [] }

/** What the history alone shows. Only for a planted bug: whether anything is lost, the final answers say. */
function judgeEarly(world, stopAt) {
  if (stopAt === undefined) return []
  return judge(world.history(), noAnswers).filter(({ rule }) => stopAt.includes(rule))
}

const databaseEveryMs = 250
const databaseSlowMs = 700

/** A database that is slow to answer may have been slow to renew a lease: that is nobody's fault. */
export async function watchDatabase(world, signal) {
  while (!signal.aborted) {
    const from = monotonicUs()
    await world.query('select 1').catch(() => undefined) // down, by one of the faults
    const to = monotonicUs()
    if (to - from > databaseSlowMs * 1_000) world.record('stall', { pid: 'database', from, to: to + 500_000 })
    await delay(databaseEveryMs)
  }
}

/** In epochs of some seconds with a few kinds of operations each: rare ones meet more often than among all. */
export async function operateUntil(world, no, names, isOver) {
  const random = createRandom(world.seed * 31 + no)
  while (!isOver()) {
    const epochEndsAt = monotonicUs() + random.integer(1_000, 4_000) * 1_000
    const some = names.filter((name) => random.chance(name.startsWith('publish') ? 0.6 : 0.35))
    const chosen = some.length === 0 ? names : some
    while (!isOver() && monotonicUs() < epochEndsAt) {
      const aimed = random.chance(0.6) ? aimOperation(world, random, names) : undefined
      if (aimed !== undefined) await operations[aimed.name].run(aimed.world, random)
      else await drawOperation(random, chosen).run(world, random)
      await delay(random.next() * 30)
    }
  }
}

/** An operation that has not met one of the faults that last now, done where that fault is. */
function aimOperation(world, random, names) {
  const isUp = ({ role }) => world.slots.find((slot) => slot.role === role)?.isUp ?? true
  const lasting = [...world.lasting].filter(isUp)
  if (lasting.length === 0) return undefined
  const { fault: name, role } = random.pick(lasting)
  const unmet = names.filter(
    (one) =>
      !world.met.has(`${one}, ${name}`) && (role === undefined || role.startsWith(operations[one].place)),
  )
  if (unmet.length === 0) return undefined
  return { name: random.pick(unmet), world: Object.assign(Object.create(world), { aim: role }) }
}

async function burstUntil(world, names, isOver) {
  const random = createRandom(world.seed * 31 + 11)
  const bag = names.flatMap((name) => Array(themes[name].weight).fill(name))
  while (!isOver()) {
    const name = random.pick(bag)
    world.record('theme', { name })
    await themes[name].run(world, random)
    await delay(random.integer(50, 600))
  }
}

/** Each does one fault after the other; those of different loops overlap, and so does one that takes long. */
const harmLoops = [17, 19]
const harmMsMax = 5_000

async function harmUntil(world, no, names, isOver) {
  if (names.length === 0) return
  const random = createRandom(world.seed * 31 + no)
  const bag = names.flatMap((name) => Array(faults[name].weight).fill(name))
  const lasting = new Set()
  while (!isOver()) {
    await delay(random.integer(100, 1_500))
    if (isOver()) break
    const one = harm(world, random, random.pick(bag)).finally(() => lasting.delete(one))
    lasting.add(one)
    await Promise.race([one, delay(harmMsMax)])
  }
  await Promise.all(lasting)
}
