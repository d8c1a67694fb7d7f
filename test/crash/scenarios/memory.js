/**
 * Processes with a memory queue are killed at every word that they say about it to the database: before it is sent, and
 * before its answer is read. What was persisted is never lost, nothing runs again that a persist covers, and what is
 * lost is exactly what came after the last one.
 */
import { monotonicUs } from '../support/recorder.js'
import { openWorld } from '../support/world.js'

const threshold = 10
const batchMax = 8
/** What may be in memory only: publishers wait at twice the threshold, and one batch may be on its way. */
const lostMax = 2 * threshold + batchMax

/**
 * @param {{ connection: object, seed: number, secs: number, every?: number, killsMax?: number }} options `every`: only each
 *   n-th word, from one that the seed chooses, and each n-th answer; else all of them, and again as long as there is time
 */
export async function run({ connection, seed, secs, every = 1, killsMax = 200 }) {
  const world = await openWorld({ connection, name: 'memory' })
  const deadline = monotonicUs() + secs * 1e6
  const state = { generation: 0, deaths: [], violations: [], owed: new Set() }
  try {
    await live(world, state, { seed, wordsMax: 0, batches: 2 })
    do await killAtEveryWord(world, state, { seed, every, killsMax })
    while (monotonicUs() < deadline)
    await finish(world, state, { seed })
    return { counts: countsOf(state, world.history()), violations: state.violations }
  } finally {
    await world.close()
  }
}

async function killAtEveryWord(world, state, { seed, every, killsMax }) {
  for (let kills = 0; kills < killsMax; kills++) {
    const wordsMax = 1 + (seed % every) + Math.floor((kills * every) / 2)
    const { signal } = await live(world, state, { seed, wordsMax, isSent: kills % 2 === 1, batches: 6 })
    if (signal !== 'SIGKILL') return
  }
}

/** The last one, an hour later: nothing is kept from it. */
async function finish(world, state, { seed }) {
  await world.query(
    `create or replace function __schema__.clock() returns timestamptz language sql stable
    as 'select statement_timestamp() + interval ''2 h'''`,
  )
  await live(world, state, { seed, wordsMax: 0, batches: 0, isLast: true })
  const { unsettled } = await persisted(world)
  for (const id of unsettled) state.violations.push(`left over: ${id} was never settled`)
  const done = new Set(
    world
      .history()
      .filter(isDone)
      .map(({ id }) => id),
  )
  const buried = (await world.query('select event_id::int as id from __schema__.dead_letters')).map(
    ({ id }) => id,
  )
  if (new Set(buried).size < buried.length) state.violations.push(`buried twice: one of ${buried}`)
  for (const id of state.owed) {
    // One that was killed before it read the answer has no record of its burial.
    if (!done.has(id) && !buried.includes(id)) {
      state.violations.push(`lost: ${id} was persisted and never done`)
    }
  }
}

/** One process from its start to its end, and what it must not have done. */
async function live(world, state, { seed, wordsMax, isSent = false, batches, isLast = false }) {
  const before = await persisted(world)
  // As long as a process that has vanished keeps its queue.
  await world.query('update __schema__.memory_queues set held_until = __schema__.clock()')
  const config = { seed, wordsMax, isSent, batches, isLast, threshold, batchMax }
  const child = await world.startProcess('memory.js', config)
  const end = await child.ended
  if (end.signal !== 'SIGKILL' && end.code !== 0) throw new Error(`A worker failed: ${end.complaint}`)
  const history = world.history().filter(({ pid }) => pid === child.pid)
  const after = await persisted(world)
  state.generation++
  judgeLife(state, { before, after, history, world: world.history() })
  if (end.signal === 'SIGKILL') state.deaths.push({ lost: lostOf(history, after), history })
  for (const id of after.unsettled) state.owed.add(id)
  return end
}

function judgeLife(state, { before, after, history, world }) {
  const { violations, generation } = state
  const say = (what) => violations.push(`generation ${generation}: ${what}`)
  const published = new Set(history.filter(({ kind }) => kind === 'published').map(({ id }) => id))
  const known = new Set([...before.unsettled, ...before.stored])
  const everPublished = new Set(world.filter(({ kind }) => kind === 'published').map(({ id }) => id))
  for (const { id } of history.filter(({ kind }) => kind === 'begin')) {
    // One that was not answered before the kill has no record of its own.
    if (!known.has(id) && !published.has(id) && everPublished.has(id))
      say(`${id} ran again, though it was covered`)
  }
  const lastSaved = history.findLast(({ kind }) => kind === 'saved')
  const taken = history.findLast(
    ({ kind, at }) => kind === 'take' && lastSaved !== undefined && at < lastSaved.at,
  )
  const isCovered = ({ at }) => taken !== undefined && at < taken.at
  const unsettled = new Set([...after.unsettled, ...after.stored])
  const done = new Set(history.filter(isDone).map(({ id }) => id))
  for (const record of history.filter(isDone)) {
    if (isCovered(record) && after.unsettled.has(record.id))
      say(`${record.id} was settled before the last persist, and is owed`)
  }
  for (const record of history.filter(({ kind }) => kind === 'published')) {
    if (isCovered(record) && !done.has(record.id) && !unsettled.has(record.id)) {
      say(`${record.id} came before the last persist, and is lost`)
    }
  }
  for (const id of before.unsettled) {
    if (!done.has(id) && !unsettled.has(id)) say(`${id} was persisted before, and is lost`)
  }
  const lost = lostOf(history, after)
  if (lost > lostMax) say(`${lost} are lost, more than ${lostMax}`)
}

/** How many were answered for, not done, and are nowhere. */
function lostOf(history, after) {
  const done = new Set(history.filter(isDone).map(({ id }) => id))
  const kept = (id) => after.unsettled.has(id) || after.stored.has(id) || done.has(id)
  return history.filter(({ kind, id }) => kind === 'published' && !kept(id)).length
}

function isDone({ kind, settlement }) {
  return kind === 'settled' && (settlement === 'complete' || settlement === 'bury')
}

/** What a start would load, and what is in the durable tables. */
async function persisted(world) {
  const queue = await world.query(
    `select m.event_id::int as id
    from __schema__.memory_events m
    join __schema__.memory_queues q on q.subscription = m.subscription and m.event_id > q.checkpoint
    where not exists (
      select 1 from __schema__.memory_settled t where t.subscription = m.subscription and t.event_id = m.event_id)`,
  )
  const events = await world.query('select id::int from __schema__.events')
  return { unsettled: new Set(queue.map(({ id }) => id)), stored: new Set(events.map(({ id }) => id)) }
}

function countsOf({ generation, deaths }, history) {
  const of = (kind) => history.filter((record) => record.kind === kind).length
  const words = deaths.map((death) => death.history.findLast(({ kind }) => kind === 'word'))
  return {
    generations: generation,
    kills: deaths.length,
    killsAtACommit: words.filter((word) => word?.isCommit).length,
    published: of('published'),
    persists: of('saved'),
    settled: history.filter(isDone).length,
    lost: deaths.reduce((sum, { lost }) => sum + lost, 0),
    mostLost: Math.max(0, ...deaths.map(({ lost }) => lost)),
    lostMax,
  }
}
