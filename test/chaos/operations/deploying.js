/** Handlers come back with other options, end, and are made again; types of events are defined; old data goes. */
import { setTimeout as delay } from 'node:timers/promises'
import { slotFor } from '../slots.js'
import { leaseMs, timeoutMs } from '../topology.js'
import { learnSubscribers } from '../world.js'
import { whileGone } from './changing.js'
import { typeAgeMs } from './planning.js'

export const deploying = {
  'handler.redeploy': { weight: 1, place: 'worker', run: redeploy },
  'handler.delete': { weight: 0.5, place: 'worker', run: recreateHandler },
  'memory.move': { weight: 1, place: 'memory', run: moveMemory },
  'memory.redeploy': { weight: 1, place: 'memory', run: redeployMemory },
  'type.define': { weight: 1, place: 'worker', run: defineType },
  'type.delete': { weight: 0.5, place: 'worker', run: deleteType },
  prune: { weight: 0.5, place: 'worker', run: prune },
  purge: { weight: 1, place: 'server', run: purge },
  'library.purge': { weight: 0.5, place: 'worker', run: purgeByLibrary },
}

/** A worker comes back with other options: the last start decides for all. */
export async function redeploy(world, random, given) {
  const handler =
    world.state.handlers.find(({ name }) => name === given?.s) ??
    random.pick(world.state.handlers.filter(({ name }) => name !== 'probe'))
  const { types, ...change } = given?.change ?? random.pick(changesOf(random, handler))
  handler.options = { ...handler.options, ...change }
  if (types !== undefined) handler.types = types
  const options = Object.fromEntries(
    Object.entries({ ...change, ...(types && { types }) }).map(([name, value]) => [name, value ?? null]),
  )
  await deploy(world, random, { name: 'handler.redeploy', s: handler.name, options })
}

/** Whoever starts next has the new options too, whatever comes of this call. */
async function deploy(world, random, { name, ...fields }) {
  const slot = slotFor(world, random, 'worker')
  return world.operate(name, fields, async () => {
    const answer = await slot.command('redeploy', { handlers: world.state.handlers })
    return answer.type === 'fail' ? { ...answer, type: 'info' } : answer
  })
}

const fixed = (random) => ({ kind: 'fixed', delayMs: random.integer(20, 150), failuresMax: 4 })
const exponential = { kind: 'exponential', baseMs: 20, factor: 2, maxMs: 300, jitter: 0.2, failuresMax: 4 }

const changesOf = (random, { name }) => [
  { keyConcurrency: random.pick([undefined, 1, 2]) },
  { maxConcurrency: random.pick([undefined, 3, 10]) },
  { ratePerSecond: random.pick([undefined, 150, 1_000, 1_000_000]) },
  { onExhausted: random.pick(['skip', 'block']) },
  ...(name === 'pointer' ? [{ orderingKey: random.pick([undefined, '/payload/p']) }] : []),
  { retry: random.pick([fixed(random), exponential]) },
  { concurrency: random.integer(1, 12) },
  { leaseMs: random.integer(leaseMs, leaseMs + 1_000) },
  { timeoutMs: random.integer(timeoutMs, timeoutMs + 300) },
  ...(name === 'picky'
    ? [
        { filter: random.pick([undefined, { '/payload/f': true }]) },
        { tags: random.pick([undefined, 'a']) },
        { types: random.pick([['picky.*'], ['picky.x', 'picky.y']]) },
      ]
    : []),
]

/** Until some worker starts again, nobody is owed anything. */
async function recreateHandler(world, random) {
  await whileGone(world, 'picky', async () => {
    const slot = slotFor(world, random, 'worker')
    await world.operate('handler.delete', { s: 'picky', deletes: true }, () =>
      slot.command('unsubscribe', { name: 'picky' }),
    )
    await delay(random.integer(0, 300))
    await deploy(world, random, { name: 'handler.create', s: 'picky', creates: true })
    await learnSubscribers(world)
  })
}

/** Between the memory of its process and the database. */
async function moveMemory(world) {
  const storage = world.state.memory.options.storage === 'memory' ? 'database' : 'memory'
  await changeMemory(world, 'memory.move', { storage })
}

/** Its process comes back with other options, and the queue stays where it is. */
async function redeployMemory(world, random) {
  await changeMemory(world, 'memory.redeploy', random.pick(memoryChanges(random)))
}

const memoryChanges = (random) => [
  { onExhausted: random.pick(['skip', 'block']) },
  { keyConcurrency: random.pick([undefined, 1, 2]) },
  { persistenceThreshold: random.pick([1, 20, 200]) },
  { retry: random.pick([fixed(random), exponential]) },
  { maxConcurrency: random.pick([undefined, 3]) },
]

async function changeMemory(world, name, change) {
  const { memory } = world.state
  const changed = { ...memory, options: { ...memory.options, ...change } }
  const [slot] = world.of('memory')
  const options = Object.fromEntries(Object.entries(change).map(([field, value]) => [field, value ?? null]))
  const { type } = await world.operate(name, { s: 'memory', options }, () =>
    slot.command('redeploy', { handlers: [changed] }),
  )
  if (type === 'ok') world.state.memory = changed
}

const typeOf = (random) => `typed.${random.pick(['x', 'y', 'z'])}`

/** How long its events live and how long they are kept. */
async function defineType(world, random) {
  const type = typeOf(random)
  const options = random.pick([
    { maxAgeMs: typeAgeMs },
    { keepMs: 0 },
    { requireRoute: true },
    { maxAgeMs: typeAgeMs, keepMs: 5_000 },
  ])
  const slot = slotFor(world, random, 'worker')
  await world.operate('type.define', { defined: { type, ...options } }, () =>
    slot.command('defineType', { type, options }),
  )
}

async function deleteType(world, random) {
  const type = typeOf(random)
  const slot = slotFor(world, random, 'worker')
  await world.operate('type.delete', { defined: { type } }, () => slot.command('deleteType', { type }))
}

/** Whatever is finished and some seconds old. */
async function prune(world, random) {
  const slot = slotFor(world, random, 'worker')
  const olderThanMs = random.integer(3_000, 15_000)
  await world.operate('prune', { olderThanMs }, () => slot.command('prune', { olderThanMs }))
}

async function purge(world, random) {
  if (world.known.length === 0) return
  const { id } = random.pick(world.known)
  await world.operate('purge', { ids: [id] }, () =>
    world.ask(random, { path: `/events/${id}/purge`, body: { reason: 'chaos' } }),
  )
}

async function purgeByLibrary(world, random) {
  if (world.known.length === 0) return
  const { id } = random.pick(world.known)
  const slot = slotFor(world, random, 'worker')
  await world.operate('library.purge', { ids: [id] }, () => slot.command('purge', { id }))
}
