/**
 * The owner of a memory queue is frozen for longer than its claim lasts, and goes on after another process has taken the
 * queue over: it begins nothing more, and what it had begun settles nothing.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createRandom } from '../support/random.js'
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const eventsPerRound = 200
const waitMsMax = 60_000

/** @type {import('../support/scenario.js').Scenario} */
export async function run({ connection, seed, secs }) {
  const world = await openWorld({ connection, name: 'frozen_owner' })
  await world.query('create table __schema__.ledger (event_id bigint not null)')
  const endsAt = monotonicUs() + secs * 1e6
  const rounds = []
  try {
    const random = createRandom(seed)
    for (const inTransaction of [false, true]) rounds.push(await freezeOwner(world, random, inTransaction))
    while (monotonicUs() < endsAt) rounds.push(await freezeOwner(world, random, random.chance(0.5)))
    return await report(world, rounds)
  } finally {
    await world.close()
  }
}

/** One owner is frozen in an attempt; the next one does all that is left. */
async function freezeOwner(world, random, inTransaction) {
  const events = makeEvents(random, inTransaction)
  const first = await world.startProcess('frozen-owner.js', { events, freezes: true })
  await until(world, 'the owner is frozen', isOf(first, 'freezes'))
  const second = await world.startProcess('frozen-owner.js', { events: [], freezes: false })
  await until(world, 'the next owner works', isOf(second, 'begin'))
  const from = monotonicUs()
  first.signal('SIGCONT')
  for (const child of [first, second]) {
    const { code, complaint } = await child.ended
    if (code !== 0) throw new Error(`A worker failed: ${complaint}`)
  }
  return { first: first.pid, second: second.pid, from }
}

function makeEvents(random, inTransaction) {
  const freezesAt = random.integer(20, eventsPerRound / 2)
  return Array.from({ length: eventsPerRound }, (_, place) => ({
    type: 'memory',
    payload: {
      inTransaction: place === freezesAt ? inTransaction : random.chance(0.2),
      freezes: place === freezesAt,
    },
    ...(random.chance(0.6) ? { orderingKey: `k${random.integer(1, 5)}` } : {}),
  }))
}

async function until(world, what, isIt) {
  const deadline = monotonicUs() + waitMsMax * 1000
  while (!world.history().some(isIt)) {
    if (monotonicUs() > deadline) throw new Error(`Not so after ${waitMsMax} ms: ${what}`)
    await delay(20)
  }
}

function isOf({ pid }, kind) {
  return (record) => record.pid === pid && record.kind === kind
}

async function report(world, rounds) {
  const history = world.history()
  const effects = await world.query(
    'select event_id::int as id, count(*)::int as effects from __schema__.ledger group by 1',
  )
  const of = (kind) => history.filter((record) => record.kind === kind)
  return {
    counts: {
      freezes: of('freezes').length,
      takenOver: rounds.filter(({ first }) => of('over').some(({ pid, isLost }) => pid === first && isLost))
        .length,
      published: of('published').length,
      attempts: of('begin').length,
      refusedInTransaction: of('refused').filter(({ code }) => code === 'LEASE_LOST').length,
    },
    violations: [
      ...rounds.flatMap((round) => judgeRound(history, round)),
      ...judgeDone(of('published'), of('end'), new Map(effects.map(({ id, effects }) => [id, effects]))),
    ],
  }
}

function judgeRound(history, { first, second, from }) {
  const begun = history.filter(({ kind }) => kind === 'begin')
  const late = begun.filter(({ pid, at }) => pid === first && at >= from)
  const lanes = new Map()
  const violations = late.map(({ id }) => `begun after another had the queue: ${id}`)
  for (const { id, key } of begun.filter(({ pid }) => pid === second)) {
    if (key !== undefined && (lanes.get(key) ?? 0) > id) violations.push(`out of order in ${key}: ${id}`)
    lanes.set(key, id)
  }
  return violations
}

/** Everything was persisted before it could begin, so nothing may be lost; a transaction has its effect once. */
function judgeDone(published, ended, effects) {
  const done = new Set(ended.map(({ id }) => id))
  return published.flatMap(({ id, payload }) => [
    ...(done.has(id) ? [] : [`lost: ${id}`]),
    ...(payload.inTransaction && effects.get(id) !== 1 ? [`effects: ${id} has ${effects.get(id) ?? 0}`] : []),
  ])
}
