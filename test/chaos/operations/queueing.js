/** Queues are halted, configured and asked for checkpoints. */
import { setTimeout as delay } from 'node:timers/promises'
import { slotFor } from '../slots.js'
import { queueNames } from '../topology.js'

export const queueing = {
  'queue.pause': { weight: 2, place: 'server', run: (world, random) => halt(world, random, 'pause', byHttp) },
  'queue.drain': { weight: 1, place: 'server', run: (world, random) => halt(world, random, 'drain', byHttp) },
  'queue.configure': { weight: 1, place: 'server', run: (world, random) => configure(world, random, byHttp) },
  'library.queue.pause': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) => halt(world, random, 'pause', byLibrary),
  },
  'library.queue.drain': {
    ...{ weight: 0.5, place: 'worker' },
    run: (world, random) => halt(world, random, 'drain', byLibrary),
  },
  'library.queue.configure': {
    ...{ weight: 0.5, place: 'worker' },
    run: (world, random) => configure(world, random, byLibrary),
  },
  'queue.checkpoint': { weight: 1, place: 'server', run: checkpoint },
  'memory.checkpoint': { weight: 1, place: 'memory', run: checkpointMemory },
}

const byHttp = {
  prefix: 'queue',
  become: (world, random, { s, verb }) => world.ask(random, { path: `/queues/${s}/${verb}` }),
  configure: (world, random, { s, config }) =>
    world.ask(random, { method: 'PATCH', path: `/queues/${s}/config`, body: config }),
}

const byLibrary = {
  prefix: 'library.queue',
  become: (world, random, { s, verb }) =>
    slotFor(world, random, 'worker').command('haltQueue', { name: s, verb }),
  configure: (world, random, { s, config: { on_full: onFull, ...rest } }) =>
    slotFor(world, random, 'worker').command('configureQueue', {
      name: s,
      config: { ...rest, ...(onFull !== undefined && { onFull }) },
    }),
}

/** For a moment: whoever halts a queue lets it go on. */
async function halt(world, random, verb, by) {
  const s = random.pick(queueNames)
  world.state.halted.add(s)
  await world.operate(`${by.prefix}.${verb}`, { s, change: verb }, () =>
    by.become(world, random, { s, verb }),
  )
  await delay(random.integer(50, 1_200))
  await resume(world, random, s, by)
}

/** Until it is answered: a queue must not stay halted because an answer was lost. */
export async function resume(world, random, s, by = byHttp) {
  for (let tries = 0; tries < 60; tries++) {
    const { type, status } = await world.operate(`${by.prefix}.resume`, { s, change: 'resume' }, () =>
      by.become(world, random, { s, verb: 'resume' }),
    )
    if (type === 'ok' || status === 404) return void world.state.halted.delete(s)
    await delay(200)
  }
}

async function configure(world, random, by) {
  const s = random.pick(queueNames.filter((name) => name !== 'memory'))
  const config = random.pick([
    { maxQueueDepth: 50, on_full: 'refuse' },
    { maxQueueDepth: 50, on_full: 'hold' },
    { batchSize: random.integer(1, 20) },
    { processingInterval: random.integer(0, 200) },
    { highWatermark: 5 },
  ])
  world.state.configured.add(s)
  const name = `${by.prefix}.configure`
  await world.operate(name, { s, config }, () => by.configure(world, random, { s, config }))
  await delay(random.integer(100, 1_500))
  await configureAsUsual(world, random, s, by)
}

const usual = {
  maxQueueDepth: null,
  highWatermark: null,
  on_full: null,
  batchSize: null,
  processingInterval: null,
}

/** Until it is answered, as above. */
export async function configureAsUsual(world, random, s, by = byHttp) {
  for (let tries = 0; tries < 60; tries++) {
    const { type, status } = await world.operate(`${by.prefix}.configure`, { s, config: usual }, () =>
      by.configure(world, random, { s, config: usual }),
    )
    if (type === 'ok' || status === 404) return void world.state.configured.delete(s)
    await delay(200)
  }
}

async function checkpoint(world, random) {
  const s = random.pick(queueNames.filter((name) => name !== 'memory'))
  await world.operate('queue.checkpoint', { s }, () => world.ask(random, { path: `/queues/${s}/checkpoint` }))
}

async function checkpointMemory(world) {
  const [slot] = world.of('memory')
  await world.operate('memory.checkpoint', { s: 'memory' }, () =>
    slot.command('checkpoint', { name: 'memory' }),
  )
}
