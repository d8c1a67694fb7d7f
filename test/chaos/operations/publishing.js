/** Ways to publish by library and HTTP: alone, in batches, in transactions. */
import { slotFor } from '../slots.js'
import { openFamilies } from '../topology.js'
import { forHttp, forLibrary, httpText, noted, planEvents, remember } from './planning.js'

const families = openFamilies

export const publishing = {
  'publish.library': {
    ...{ weight: 10, place: 'worker' },
    run: (world, random) => publishByLibrary(world, random, some(world, random, 1)),
  },
  'publish.many': {
    ...{ weight: 6, place: 'worker' },
    run: (world, random) =>
      publishByLibrary(world, random, some(world, random, sizeOf(random)), 'publish.many'),
  },
  'publish.http': {
    ...{ weight: 6, place: 'server' },
    run: (world, random) => publishByHttp(world, random, some(world, random, 1)),
  },
  'publish.httpBatch': {
    ...{ weight: 4, place: 'server' },
    run: (world, random) =>
      publishByHttp(world, random, some(world, random, sizeOf(random)), 'publish.httpBatch'),
  },
  'publish.large': { weight: 0.5, place: 'server', run: publishLarge },
  'publish.transaction': { weight: 5, place: 'worker', run: publishInTransaction },
  'publish.memory': { weight: 5, place: 'memory', run: publishToMemory },
}

export const some = (world, random, count) => planEvents(world, random, random.pick(families), count)
const sizeOf = (random) => (random.chance(0.04) ? random.integer(200, 1_000) : random.integer(2, 30))

/** In whatever worker is up. Also for themes, which plan their own. */
export async function publishByLibrary(world, random, planned, name = 'publish.library', role = 'worker') {
  const slot = slotFor(world, random, role)
  const answer = await world.operate(name, { via: 'library', events: planned.map(noted) }, async () => {
    const given = await slot.command('publish', { events: planned.map((one) => forLibrary(world, one)) })
    return { ...given, told: given.type === 'ok' ? { answers: given.value } : { why: given.message } }
  })
  conclude(world, planned, answer, { via: 'library', made: answer.value })
  return answer
}

/** Known if it was acknowledged; else, if nobody knows, to be published again. */
export function conclude(world, planned, { type }, { via, made }) {
  const alike = planned.map((one) => ({ ...one, via, isAlone: planned.length === 1 }))
  if (type === 'ok') remember(world, alike, made)
  if (type === 'info' && alike.length === 1 && !alike[0].type.startsWith('probe.'))
    world.unsure.push(alike[0])
}

export async function publishByHttp(world, random, planned, name = 'publish.http') {
  const answer = await world.operate(name, { via: 'http', events: planned.map(noted) }, async () => {
    const given = await world.ask(random, requestOf(world, planned))
    if (given.type !== 'ok') return { ...given, told: { why: given.json?.detail } }
    const isReplayed = given.headers.get('idempotency-replayed') === 'true'
    const made = planned.length === 1 ? [given.json] : given.json.events
    return {
      ...given,
      told: { answers: made.map(({ id }) => ({ id, ...(isReplayed && { replayed: true }) })) },
      made,
    }
  })
  conclude(world, planned, answer, { via: 'http', made: answer.made })
  return answer
}

/** Up to the megabyte that is allowed. */
async function publishLarge(world, random) {
  const padding = 'x'.repeat(random.integer(100_000, 1_000_000))
  const planned = planEvents(world, random, random.pick(families), 1, () => ({ payload: { padding } }))
  await publishByHttp(world, random, planned, 'publish.large')
}

function requestOf(world, planned) {
  if (planned.length > 1) {
    const events = planned.map((one) => httpText(one, forHttp(world, one)))
    return { path: '/events/batch', text: `{"events":[${events.join(',')}]}` }
  }
  const [one] = planned
  const { idempotency_key: key, ...fields } = forHttp(world, one)
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  return { path: '/events', text: httpText(one, fields), headers }
}

const isolations = ['read committed', 'repeatable read', 'serializable']

export function publishInTransaction(world, random) {
  const groups = Array.from({ length: random.integer(1, 4) }, () => ({
    planned: some(world, random, random.integer(1, 5)),
    isUndone: random.chance(0.25),
  }))
  return publishGroups(world, random, {
    groups,
    commits: random.chance(0.75),
    lateMs: random.chance(0.3) ? random.integer(100, 2_000) : random.integer(0, 30),
    isolation: random.pick(isolations),
    writesFirst: random.chance(0.5),
  })
}

/** Each group is a call of its own; what is undone by a savepoint or a rollback must never be seen. */
export async function publishGroups(world, random, { groups, commits, lateMs, isolation, writesFirst }) {
  const planned = groups.flatMap((group) => group.planned)
  const isUndone = (group) => group.isUndone || !commits
  const undone = groups.filter(isUndone).flatMap((group) => group.planned.map(({ u }) => u))
  const fields = { via: 'transaction', isolation, lateMs, commits, undone, events: planned.map(noted) }
  const slot = slotFor(world, random, 'worker')
  const answer = await world.operate('publish.transaction', fields, async () => {
    const calls = groups.map((group) => ({
      isUndone: group.isUndone,
      events: group.planned.map((one) => forLibrary(world, one)),
    }))
    const args = { groups: calls, isolation, lateMs, commits, writesFirst }
    const given = await slot.command('publishInTransaction', args)
    return { ...given, told: given.type === 'ok' ? { answers: given.value } : { why: given.message } }
  })
  if (answer.type !== 'ok') return
  const kept = planned
    .map((one, place) => ({ ...one, ...answer.value[place] }))
    .filter(({ u }) => !undone.includes(u))
  remember(world, kept, kept)
}

async function publishToMemory(world, random) {
  const planned = planEvents(world, random, 'memory', random.integer(1, 12), () => ({ tags: null }))
  await publishByLibrary(world, random, planned, 'publish.memory', 'memory')
}
