/** The same event under the same key: the first answer comes again, whoever is asked and however often. */
import { noted, planEvents } from './planning.js'
import { publishByHttp, publishByLibrary, some } from './publishing.js'

export const repeating = {
  'publish.again': { weight: 3, place: 'worker', run: (world, random) => again(world, random, 'library') },
  'publish.httpAgain': { weight: 3, place: 'server', run: (world, random) => again(world, random, 'http') },
  'publish.manyAgain': { weight: 1, place: 'worker', run: manyAgain },
  'publish.httpBatchAgain': { weight: 1, place: 'server', run: httpBatchAgain },
  'publish.parallel': { weight: 1, place: 'server', run: inParallel },
  'publish.otherBytes': { weight: 1, place: 'server', run: otherBytes, isRefused: true },
}

const isRepeatable = ({ idem, expiresMs, delayMs }) => idem != null && expiresMs == null && delayMs == null

/** Those whose fate is unknown first, as a careful producer does it. */
async function again(world, random, via) {
  const place = world.unsure.findIndex((one) => one.via === via && isRepeatable(one))
  const [unsure] = place < 0 ? [] : world.unsure.splice(place, 1)
  const known = world.known
    .slice(-500)
    .filter((one) => isRepeatable(one) && one.isAlone && one.via === via && !one.isOther)
  const one = unsure ?? random.pick(known)
  if (one === undefined) return
  if (via === 'http') await publishByHttp(world, random, [one], 'publish.httpAgain')
  else {
    const role = one.type.startsWith('memory') ? 'memory' : 'worker'
    await publishByLibrary(world, random, [one], 'publish.again', role)
  }
}

/** With a key each, and times that are the same when they come again. */
function keyed(world, random) {
  const mix = () => ({ expiresMs: null, delayMs: null })
  const family = some(world, random, 1)[0].type.split('.')[0]
  const planned = planEvents(world, random, family, random.integer(2, 12), mix)
  return planned.map((one) => ({ ...one, idem: `i${world.seed}-${one.u}` }))
}

async function manyAgain(world, random) {
  const planned = keyed(world, random)
  for (let times = 0; times < 2; times++) await publishByLibrary(world, random, planned, 'publish.manyAgain')
}

async function httpBatchAgain(world, random) {
  const planned = keyed(world, random)
  for (let times = 0; times < 2; times++)
    await publishByHttp(world, random, planned, 'publish.httpBatchAgain')
}

/** Several at once with one key, at both servers: one of them stores it. */
async function inParallel(world, random) {
  const [one] = keyed(world, random)
  const calls = Array.from({ length: random.integer(2, 8) }, () =>
    publishByHttp(world, random, [one], 'publish.parallel'),
  )
  await Promise.all(calls)
}

/** Under the key of another: refused, and never seen. */
async function otherBytes(world, random) {
  const one = random.pick(
    world.known.slice(-500).filter((known) => known.idem != null && known.isAlone && known.via === 'http'),
  )
  if (one === undefined) return
  const [other] = planEvents(world, random, one.type.split('.')[0], 1, () => ({
    ...plainTimes,
    idem: one.idem,
  }))
  await world.operate('publish.otherBytes', { via: 'http', events: [noted(other)] }, async () => {
    const { idem, type, payload } = other
    const request = { path: '/events', body: { type, payload }, headers: { 'idempotency-key': idem } }
    const answer = await world.ask(random, request)
    return answer.type === 'ok' ? { ...answer, told: { answers: [{ id: answer.json.id }] } } : answer
  })
}
const plainTimes = { expiresMs: null, delayMs: null, tags: null, key: null, ckey: null, maxRetries: null }
