/** What operators do over HTTP to events, deliveries, dead letters and lanes. */
import { setTimeout as delay } from 'node:timers/promises'
import { slotFor } from '../slots.js'
import { allSubscriptions } from '../topology.js'

const waiting = ['pending', 'failed']
const failed = ['failed', 'dlq']

export const repairing = {
  'cancel.one': { weight: 3, place: 'server', run: cancelOne },
  'cancel.ids': { weight: 2, place: 'worker', run: cancelIds },
  'cancel.filter': { weight: 2, place: 'server', run: cancelByFilter },
  'delivery.bury': {
    ...{ weight: 2, place: 'server' },
    run: (world, random) => onDelivery(world, random, { verb: 'bury', statuses: waiting, decide: byHttp }),
  },
  'delivery.retry': {
    ...{ weight: 2, place: 'server' },
    run: (world, random) => onDelivery(world, random, { verb: 'retry', statuses: failed, decide: byHttp }),
  },
  'redrive.one': { weight: 2, place: 'server', run: redriveOne },
  'redrive.filter': { weight: 1, place: 'server', run: redriveByFilter },
  'letter.discard': { weight: 1, place: 'server', run: discardLetter },
  recover: { weight: 1, place: 'server', run: recover },
  replay: { weight: 1, place: 'server', run: replay },
  'replay.range': { weight: 0.5, place: 'server', run: replayRange },
  'replay.count': { weight: 0.5, place: 'server', run: countReplay },
  'replay.abort': { weight: 1, place: 'server', run: abortReplay },
  reset: { weight: 2, place: 'server', run: reset },
  'lane.retry': { weight: 2, place: 'server', run: (world, random) => onLane(world, random, 'retry') },
  'lane.skip': { weight: 2, place: 'server', run: (world, random) => onLane(world, random, 'skip') },
  'lane.discard': { weight: 2, place: 'server', run: (world, random) => onLane(world, random, 'discard') },
}

/** Newer ones are more likely to be under way. */
export function pickKnown(world, random, where = () => true) {
  const recent = world.known.slice(-400).filter(where)
  return recent.length === 0 ? undefined : random.pick(recent)
}

async function cancelOne(world, random) {
  const one = pickKnown(world, random)
  if (one === undefined) return
  await world.operate('cancel.one', { touches: 'cancel', ids: [one.id] }, () =>
    world.ask(random, { path: `/events/${one.id}/cancel`, body: {} }),
  )
}

async function cancelIds(world, random) {
  const from = Math.max(0, world.known.length - random.integer(10, 200))
  const ids = world.known
    .slice(from)
    .filter(() => random.chance(0.4))
    .map(({ id }) => id)
  if (ids.length > 0) await cancelEvents(world, random, ids)
}

export async function cancelEvents(world, random, ids) {
  const slot = slotFor(world, random, 'worker')
  await world.operate('cancel.ids', { touches: 'cancel', ids }, () => slot.command('cancel', { ids }))
}

/** By ordering key or by type: what it hits only the hub knows. */
async function cancelByFilter(world, random) {
  const one = pickKnown(world, random, ({ key }) => key != null)
  if (one === undefined) return
  const filter = random.chance(0.6) ? { ordering_key: one.key } : { type: one.type, ordering_key: one.key }
  await cancelWhere(world, random, filter)
}

export async function cancelWhere(world, random, filter) {
  await world.operate('cancel.filter', { touches: 'cancel', filter }, () =>
    world.ask(random, { path: '/events/cancel', body: filter }),
  )
}

/** `decide` asks for it: over HTTP, or by the library. */
export async function onDelivery(world, random, { verb, statuses, decide, name = `delivery.${verb}` }) {
  const s = random.pick(allSubscriptions)
  const query = `subscriber=${s}&status=${random.pick(statuses)}&limit=50&order=${random.pick(['asc', 'desc'])}`
  const { json } = await world.ask(random, { method: 'GET', path: `/deliveries?${query}` })
  const found = json?.deliveries ?? []
  if (found.length === 0) return
  const { id, event_id: eventId } = random.pick(found)
  await world.operate(name, { touches: verb, s, ids: [eventId] }, () => decide(world, random, { id, verb }))
}

const byHttp = (world, random, { id, verb }) =>
  world.ask(random, {
    path: `/deliveries/${id}/${verb}`,
    body: verb === 'bury' ? { reason: 'chaos' } : undefined,
  })

export async function lettersOf(world, random, s) {
  const { json } = await world.ask(random, {
    method: 'GET',
    path: `/dlq?subscriber=${s}&limit=100&order=desc`,
  })
  return json?.dead_letters ?? []
}

async function redriveOne(world, random) {
  const s = random.pick(allSubscriptions)
  const letters = await lettersOf(world, random, s)
  if (letters.length === 0) return
  const { id, event_id: eventId } = random.pick(letters)
  await world.operate('redrive.one', { touches: 'redrive', s, ids: [eventId] }, () =>
    world.ask(random, { path: `/dlq/${id}/retry` }),
  )
}

export async function redriveByFilter(world, random, s = random.pick(allSubscriptions)) {
  await world.operate('redrive.filter', { touches: 'redrive', s }, () =>
    world.ask(random, {
      path: '/dlq/retry',
      body: { subscriber: s, ...(random.chance(0.3) && { kind: 'buried' }) },
    }),
  )
}

async function discardLetter(world, random) {
  const s = random.pick(allSubscriptions)
  const letters = await lettersOf(world, random, s)
  if (letters.length === 0) return
  const { id, event_id: eventId } = random.pick(letters)
  await world.operate('letter.discard', { touches: 'discard', s, ids: [eventId] }, () =>
    world.ask(random, { method: 'DELETE', path: `/dlq/${id}` }),
  )
}

export async function recover(world, random, s = random.pick(allSubscriptions)) {
  const body = {
    since: new Date(world.nowMs() - 3_600_000).toISOString(),
    dead_letters: random.pick(['buried', 'expired', 'all']),
    again: true,
    ...(random.chance(0.3) && { rate_per_second: 50 }),
  }
  await world.operate('recover', { touches: 'redrive', s }, () =>
    world.ask(random, { path: `/subscribers/${world.subscriberIds.get(s)}/recover`, body }),
  )
}

/** Of a few events, so that a run ends. Memory queues cannot be replayed to. */
export async function replay(world, random, s = random.pick(allSubscriptions), ids = undefined) {
  const chosen =
    ids ??
    world.known
      .slice(-300)
      .filter(() => random.chance(0.1))
      .map(({ id }) => id)
  if (chosen.length === 0) return
  await world.operate('replay', { touches: 'replay', s, ids: chosen }, () =>
    world.ask(random, {
      path: `/subscribers/${world.subscriberIds.get(s)}/replay`,
      body: { event_ids: chosen.slice(0, 1_000), again: true },
    }),
  )
}

/** What was published lately of one type. The type says which events may be meant. */
async function replayRange(world, random) {
  const one = pickKnown(world, random)
  if (one === undefined) return
  const s = random.pick(allSubscriptions)
  const body = {
    ...{ from: new Date(world.nowMs() - 3_000).toISOString(), to: new Date(world.nowMs()).toISOString() },
    ...{ event_type: one.type, again: true, ...(random.chance(0.3) && { filter: { '/payload/f': true } }) },
  }
  await world.operate('replay.range', { touches: 'replay', s, filter: { type: one.type } }, () =>
    world.ask(random, { path: `/subscribers/${world.subscriberIds.get(s)}/replay`, body }),
  )
}

/** Sends nothing. */
async function countReplay(world, random) {
  const s = random.pick(allSubscriptions)
  const from = new Date(world.nowMs() - 60_000).toISOString()
  const [verb, body] = random.pick([
    ['recover', { since: from, dry_run: true }],
    ['replay', { from, dry_run: true }],
  ])
  await world.operate('replay.count', { s }, () =>
    world.ask(random, { path: `/subscribers/${world.subscriberIds.get(s)}/${verb}`, body }),
  )
}

/** A slow one, in the middle of it: what is sent stays sent. */
async function abortReplay(world, random) {
  const s = random.pick(allSubscriptions)
  const ids = world.known.slice(-300).map(({ id }) => id)
  if (ids.length === 0) return
  const request = {
    path: `/subscribers/${world.subscriberIds.get(s)}/replay`,
    body: { event_ids: ids, again: true, rate_per_second: 20 },
  }
  const { type, json } = await world.operate('replay', { touches: 'replay', s, ids }, () =>
    world.ask(random, request),
  )
  if (type !== 'ok') return
  await delay(random.integer(0, 1_500))
  await insistOnAbort(world, random, json.id)
}

/** Until it is answered: at that pace it would go on for long. */
async function insistOnAbort(world, random, id) {
  for (let tries = 0; tries < 60; tries++) {
    const { status } = await world.operate('replay.abort', { replay: id }, () =>
      world.ask(random, { method: 'DELETE', path: `/replays/${id}` }),
    )
    if (status === 200 || status === 404) return
    await delay(200)
  }
}

async function reset(world, random) {
  const one = pickKnown(world, random)
  if (one === undefined) return
  await world.operate('reset', { touches: 'reset', ids: [one.id] }, () =>
    world.ask(random, { path: `/events/${one.id}/reset?reason=chaos` }),
  )
}

export async function onLane(
  world,
  random,
  verb,
  s = random.pick(['block', 'plain', 'pulled', 'hook', 'block', 'memory']),
) {
  const id = world.subscriberIds.get(s)
  const status = random.pick(['blocked', 'retrying'])
  const { json } = await world.ask(random, {
    method: 'GET',
    path: `/subscribers/${id}/lanes?status=${status}&limit=50`,
  })
  const lanes = json?.lanes ?? []
  if (lanes.length === 0) return
  const { ordering_key: key, head_event_id: head } = random.pick(lanes)
  // The head may be another by then: the whole lane counts as touched.
  await world.operate(`lane.${verb}`, { touches: `lane ${verb}`, s, key, ids: [head] }, () =>
    world.ask(random, { path: `/subscribers/${id}/lanes/${encodeURIComponent(key)}/${verb}` }),
  )
}
