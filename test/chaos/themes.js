/**
 * Bursts that aim at where two features meet. What is drawn uniformly meets rarely; a theme makes it meet often, with
 * lanes of its own, so that nobody publishes into them again and wakes what fell asleep.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { changeSubscriber, resumeSubscriber } from './operations/changing.js'
import { redeploy } from './operations/deploying.js'
import { planEvent } from './operations/planning.js'
import {
  publishByHttp,
  publishByLibrary,
  publishGroups,
  publishInTransaction,
} from './operations/publishing.js'
import {
  cancelEvents,
  cancelWhere,
  onLane,
  recover,
  redriveByFilter,
  replay,
} from './operations/repairing.js'

export const themes = {
  'lanes that expire as their heads complete': { weight: 3, run: expiringLanes },
  'lanes cancelled as their heads complete': { weight: 3, run: cancelledLanes },
  'a batch of one key and many kinds': { weight: 2, run: mixedBatch },
  'many batches of two kinds': { weight: 1, run: manyBatches },
  'transactions that commit late': { weight: 1, run: lateCommits },
  'a gate changed between burial and repair': { weight: 2, run: changedGates },
  'lanes that take long': { weight: 1, run: slowLanes },
  'blocked lanes retried, skipped and discarded': { weight: 2, run: blockedLanes },
  'an endpoint that says that it is gone': { weight: 1, run: goneEndpoint },
  'queues with a rate, small or huge': { weight: 1, run: ratedQueues },
  'payloads that cannot be looked into': { weight: 1, run: unreadablePayloads },
}

const plain = { tags: null, delayMs: null, maxRetries: null, idem: null, ckey: null, expiresMs: null }
const laneFamilies = ['plain', 'pulled', 'plain', 'gated']

function lanesOf(world, random, { family, lanes, tail }) {
  const burst = world.nextBurst()
  const type = `${family}.b${burst}`
  const heads = []
  const tails = []
  for (let lane = 0; lane < lanes; lane++) {
    const key = `b${burst}-${lane}`
    heads.push(
      planEvent(world, random, family, {
        ...plain,
        type,
        key,
        payload: { ms: random.integer(5, 60), o: [] },
      }),
    )
    for (let place = 0; place < tail; place++) {
      tails.push(
        planEvent(world, random, family, {
          ...plain,
          type,
          key,
          payload: { ms: random.integer(0, 4), o: [] },
        }),
      )
    }
  }
  return { type, heads, tails }
}

async function publishParts(world, random, planned) {
  const answers = []
  for (let from = 0; from < planned.length; from += 900) {
    const part = planned.slice(from, from + 900)
    const answer = await publishByLibrary(world, random, part, 'publish.many')
    if (answer.type === 'ok') answers.push(...answer.value.map(({ id }, place) => ({ ...part[place], id })))
  }
  return answers
}

/** Runs that outlast a frozen process: whoever had them wakes up while another is at them. */
async function slowLanes(world, random) {
  const { heads, tails } = lanesOf(world, random, {
    family: 'plain',
    lanes: 10,
    tail: random.integer(10, 40),
  })
  for (const { payload } of [...heads, ...tails]) payload.ms = random.integer(40, 120)
  await publishParts(world, random, heads)
  await publishParts(world, random, tails)
}

/** Heads that are buried block their lanes until an operator comes. */
async function blockedLanes(world, random) {
  const { heads, tails } = lanesOf(world, random, { family: 'block', lanes: 8, tail: random.integer(1, 6) })
  for (const { payload } of heads) payload.o = ['bury', 'bury']
  await publishParts(world, random, [...heads, ...tails])
  await delay(random.integer(100, 800))
  for (const verb of ['retry', 'skip', 'discard', 'retry', random.pick(['skip', 'discard'])]) {
    await onLane(world, random, verb, 'block')
    await delay(random.integer(0, 200))
  }
}

/** Part of each lane expires about when what is before it is done; the rest must follow all the same. */
async function expiringLanes(world, random) {
  const lanes = random.integer(40, 120)
  const family = random.pick(laneFamilies)
  const { heads, tails } = lanesOf(world, random, {
    family,
    lanes,
    tail: random.integer(4, 16),
  })
  const windowMs = random.integer(300, 2_500)
  for (const one of tails) if (random.chance(0.7)) one.expiresMs = random.integer(20, windowMs)
  await publishParts(world, random, heads)
  await publishParts(world, random, tails)
  await delay(windowMs)
  await noteEnds(world, random, { s: family, status: 'expired' })
}

/** Before they are pruned: when each of them ended, for the count of what met. */
async function noteEnds(world, random, { s, status }) {
  const path = `/deliveries?subscriber=${s}&status=${status}&order=desc&limit=1000`
  const { json, type } = await world.ask(random, { method: 'GET', path })
  if (type !== 'ok') return
  const ends = json.deliveries.map(({ event_id, updated_at }) => ({ event_id, updated_at }))
  world.record('ends', { s, status, ends })
}

/** Some of each lane are cancelled, by ids and by filter, while what is before them is being done. */
async function cancelledLanes(world, random) {
  const lanes = random.integer(40, 100)
  const family = random.pick(laneFamilies)
  const { type, heads, tails } = lanesOf(world, random, {
    family,
    lanes,
    tail: random.integer(4, 12),
  })
  const isTagged = random.chance(0.5)
  if (isTagged) for (const [place, one] of tails.entries()) if (place % 3 === 0) one.maxRetries = 3
  await publishParts(world, random, heads)
  const stored = await publishParts(world, random, tails)
  for (let times = 0; times < 4; times++) {
    const ids = stored.filter(() => random.chance(0.25)).map(({ id }) => id)
    if (random.chance(0.25)) {
      const { key } = random.pick(heads)
      await cancelWhere(world, random, { type, ordering_key: key })
    } else if (ids.length > 0) await cancelEvents(world, random, ids)
    await delay(random.integer(0, 60))
  }
  await noteEnds(world, random, { s: family, status: 'cancelled' })
}

/** Array order holds for every mix of fields, also where no two events are alike. */
async function mixedBatch(world, random) {
  const family = random.pick(laneFamilies)
  const keys = random.integer(1, 3)
  const burst = world.nextBurst()
  // Two kinds; one for each event; or so many that one admission cannot take them all, while each comes again later.
  const { kinds, share, size } = random.pick([
    { kinds: 2, share: 0.3, size: random.integer(500, 1_000) },
    { kinds: 9_001, share: 1, size: random.integer(500, 1_000) },
    ...Array(3).fill({ kinds: 700, share: 1, size: 1_000 }),
  ])
  const planned = Array.from({ length: size }, (_, place) =>
    planEvent(world, random, family, {
      ...plain,
      key: `b${burst}-${place % keys}`,
      expiresMs: random.chance(share) ? 60_000 + ((place * 7) % kinds) : null,
      maxRetries: random.chance(0.3) ? random.integer(2, 5) : null,
      tags: random.chance(0.1) ? 'a' : null,
      payload: { o: [], ms: 0 },
    }),
  )
  if (random.chance(0.5)) await publishByLibrary(world, random, planned, 'publish.many')
  else await publishByHttp(world, random, planned, 'publish.httpBatch')
}

/** In one transaction, so that all of it arrives at once and one admission cannot take it all. */
async function manyBatches(world, random) {
  const family = random.pick(['plain', 'pulled'])
  const burst = world.nextBurst()
  const lanes = random.integer(5, 50)
  const batch = () =>
    Array.from({ length: random.integer(300, 900) }, (_, place) =>
      planEvent(world, random, family, {
        ...plain,
        key: `b${burst}-${place % lanes}`,
        expiresMs: Math.floor(place / lanes) % 2 === 0 ? 60_000 : 90_000,
        payload: { o: [], ms: 0 },
      }),
    )
  const size = random.chance(0.2) ? 14 : random.integer(3, 6)
  const groups = Array.from({ length: size }, () => ({ planned: batch(), isUndone: false }))
  await publishGroups(world, random, { groups, commits: true, lateMs: 0, isolation: 'read committed' })
}

/** Whoever orders by something in the payload finds none there, now and when it is sent again. */
async function unreadablePayloads(world, random) {
  const s = random.pick(['pointer', 'pulled', 'hook'])
  const pointed = (ordering_key) => changeSubscriber(world, random, { s, change: { ordering_key } })
  if (s !== 'pointer') await pointed(random.pick([null, '/payload/p']))
  const plan = () =>
    planEvent(world, random, s, {
      ...plain,
      key: null,
      payload: { unreadable: random.pick(['\u0000', '\ud800']), ms: 1 },
    })
  await publishByHttp(world, random, [plan()])
  await publishByHttp(
    world,
    random,
    [plan(), plan(), planEvent(world, random, s, plain)],
    'publish.httpBatch',
  )
  if (s !== 'pointer') await pointed('/payload/p')
  await world.ask(random, { method: 'GET', path: `/deliveries?subscriber=${s}&limit=20&order=desc` })
  await redriveByFilter(world, random, s)
}

/** 410 pauses the subscription until an operator resumes it; what it was told of is held, and goes on then. */
async function goneEndpoint(world, random) {
  const s = 'hook'
  const planned = Array.from({ length: 5 }, () =>
    planEvent(world, random, s, { ...plain, payload: { o: [410] } }),
  )
  world.state.paused.add(s)
  await publishByHttp(world, random, planned, 'publish.httpBatch')
  await delay(random.integer(200, 1_500))
  await resumeSubscriber(world, random, s)
  // It may be told of it only after that.
  world.state.paused.add(s)
}

/** What a second allows is counted by the clock, whatever the clock does. */
async function ratedQueues(world, random) {
  const s = random.pick(['pulled', 'hook', 'client'])
  const rate = random.pick([150, 1_000, 1_000_000])
  await changeSubscriber(world, random, { s, change: { rate_per_second: rate } })
  const planned = Array.from({ length: 40 }, () =>
    planEvent(world, random, s, { ...plain, payload: { o: [], ms: 1 } }),
  )
  await publishByHttp(world, random, planned, 'publish.httpBatch')
}

/** Many at once, so that later publishes are committed and done before earlier ones. */
async function lateCommits(world, random) {
  await Promise.all(Array.from({ length: 12 }, () => publishInTransaction(world, random)))
}

/** Buried under one gate, sent again under another or none: it must come through. */
async function changedGates(world, random) {
  const s = random.pick(['gated', 'pulled', 'hook'])
  const onExhausted = random.pick(['skip', 'block'])
  const set = (limit) =>
    s === 'gated'
      ? redeploy(world, random, { s, change: { keyConcurrency: limit ?? undefined, onExhausted } })
      : changeSubscriber(world, random, { s, change: { key_concurrency: limit, on_exhausted: onExhausted } })
  const [before, after] = random.pick([
    [2, null],
    [null, 2],
    [1, null],
    [null, 1],
  ])
  await set(before)
  const burst = world.nextBurst()
  const bury = s === 'hook' ? 400 : 'bury'
  const planned = Array.from({ length: 12 }, (_, place) =>
    planEvent(world, random, s, {
      ...plain,
      key: random.chance(0.6) ? `b${burst}-${place % 3}` : null,
      ckey: `g${burst}-${place % 2}`,
      payload: { o: random.chance(0.6) ? [bury] : [], ms: 1 },
    }),
  )
  const answer = await publishByLibrary(world, random, planned, 'publish.many')
  await delay(random.integer(300, 1_200))
  await set(after)
  const ids = answer.type === 'ok' ? answer.value.map(({ id }) => id) : []
  const repair = random.pick([
    () => redriveByFilter(world, random, s),
    () => recover(world, random, s),
    () => replay(world, random, s, ids),
  ])
  await repair()
}
