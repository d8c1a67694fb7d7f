/** Queues are halted, configured and asked for checkpoints. */
import { setTimeout as delay } from 'node:timers/promises'
import { queueNames } from '../topology.js'

export const queueing = {
  'queue.pause': { weight: 2, place: 'server', run: (world, random) => halt(world, random, 'pause') },
  'queue.drain': { weight: 1, place: 'server', run: (world, random) => halt(world, random, 'drain') },
  'queue.configure': { weight: 1, place: 'server', run: configure },
  'queue.checkpoint': { weight: 1, place: 'server', run: checkpoint },
  'memory.checkpoint': { weight: 1, place: 'memory', run: checkpointMemory },
}

/** For a moment: whoever halts a queue lets it go on. */
async function halt(world, random, verb) {
  const s = random.pick(queueNames)
  world.state.halted.add(s)
  await world.operate(`queue.${verb}`, { s, change: verb }, () =>
    world.ask(random, { path: `/queues/${s}/${verb}` }),
  )
  await delay(random.integer(50, 1_200))
  await resume(world, random, s)
}

/** Until it is answered: a queue must not stay halted because an answer was lost. */
export async function resume(world, random, s) {
  for (let tries = 0; tries < 60; tries++) {
    const { status } = await world.operate('queue.resume', { s, change: 'resume' }, () =>
      world.ask(random, { path: `/queues/${s}/resume` }),
    )
    if (status === 200 || status === 404) return void world.state.halted.delete(s)
    await delay(200)
  }
}

async function configure(world, random) {
  const s = random.pick(queueNames.filter((name) => name !== 'memory'))
  const config = random.pick([
    { maxQueueDepth: 50, on_full: 'refuse' },
    { maxQueueDepth: 50, on_full: 'hold' },
    { batchSize: random.integer(1, 20) },
    { processingInterval: random.integer(0, 200) },
    { highWatermark: 5 },
  ])
  world.state.configured.add(s)
  const request = { method: 'PATCH', path: `/queues/${s}/config`, body: config }
  await world.operate('queue.configure', { s, config }, () => world.ask(random, request))
  await delay(random.integer(100, 1_500))
  await configureAsUsual(world, random, s)
}

const usual = {
  maxQueueDepth: null,
  highWatermark: null,
  on_full: null,
  batchSize: null,
  processingInterval: null,
}

/** Until it is answered, as above. */
export async function configureAsUsual(world, random, s) {
  for (let tries = 0; tries < 60; tries++) {
    const request = { method: 'PATCH', path: `/queues/${s}/config`, body: usual }
    const { status } = await world.operate('queue.configure', { s, config: usual }, () =>
      world.ask(random, request),
    )
    if (status === 200 || status === 404) return void world.state.configured.delete(s)
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
