/** Fresh events for every way of consuming, once all has healed and drained: how soon each begins says whether the hub is well. */
import { setTimeout as delay } from 'node:timers/promises'
import { planEvent } from './operations/planning.js'
import { publishByHttp, publishByLibrary } from './operations/publishing.js'

/** Handlers, the handler of a memory queue, a pull worker, one that uses the client, and a webhook. */
const ways = ['plain', 'block', 'memory', 'pulled', 'client', 'hook']
const probes = 25
const everyMs = 40

/** One of each first, whose delay does not count: an endpoint that was suspended is tried again within a minute. */
export const warmUp = (world) => publishProbes(world, { count: 1, isProbe: null })

export const probe = (world) => publishProbes(world, { count: probes, isProbe: true })

async function publishProbes(world, { count, isProbe }) {
  for (let n = 0; n < count; n++) {
    await Promise.all(ways.map((way) => publishProbe(world, way, { n, isProbe })))
    await delay(everyMs)
  }
}

/** With a tag and a mark that every filter and tag of the driver asks for. */
async function publishProbe(world, way, { n, isProbe }) {
  const mix = {
    tags: way === 'memory' ? null : 'a',
    delayMs: null,
    maxRetries: null,
    idem: null,
    expiresMs: null,
  }
  const payload = { f: true, o: [], ms: 0, unreadable: undefined }
  const key = n % 2 === 0 ? null : `probe-${way}`
  const one = planEvent(world, world.random, way, { ...mix, ckey: null, key, isProbe, payload })
  if (way === 'memory') await publishByLibrary(world, world.random, [one], 'publish.probe', 'memory')
  else await publishByHttp(world, world.random, [one], 'publish.probe')
}
