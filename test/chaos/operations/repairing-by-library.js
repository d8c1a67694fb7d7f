/** The same repairs through the library, in a worker. */
import { slotFor } from '../slots.js'
import { allSubscriptions } from '../topology.js'
import { lettersOf, onDelivery, pickKnown } from './repairing.js'

export const repairingByLibrary = {
  'library.redrive': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) => onLetters(world, random, { name: 'redrive', touches: 'redrive', max: 20 }),
  },
  'library.retryLetter': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) => onLetters(world, random, { name: 'retryLetter', touches: 'redrive', max: 1 }),
  },
  'library.retryLetters': { weight: 1, place: 'worker', run: retryLetters },
  'library.discardLetter': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) => onLetters(world, random, { name: 'discardLetter', touches: 'discard', max: 1 }),
  },
  'library.recover': { weight: 0.5, place: 'worker', run: recover },
  'library.replay': { weight: 0.5, place: 'worker', run: replay },
  'library.abortReplay': { weight: 0.5, place: 'worker', run: abortReplay },
  'library.reset': { weight: 1, place: 'worker', run: reset },
  'library.delivery.bury': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) =>
      onDelivery(world, random, {
        ...{
          verb: 'bury',
          statuses: ['pending', 'failed'],
          decide: byLibrary,
          name: 'library.delivery.bury',
        },
      }),
  },
  'library.delivery.retry': {
    ...{ weight: 1, place: 'worker' },
    run: (world, random) =>
      onDelivery(world, random, {
        ...{ verb: 'retry', statuses: ['failed', 'dlq'], decide: byLibrary, name: 'library.delivery.retry' },
      }),
  },
  'library.unblock': { weight: 1, place: 'worker', run: unblock },
}

const byLibrary = (world, random, { id, verb }) =>
  slotFor(world, random, 'worker').command(`${verb}Delivery`, { id })

function tell(world, random, { name, args, ...fields }) {
  const slot = slotFor(world, random, 'worker')
  return world.operate(`library.${name}`, fields, () => slot.command(name, args))
}

async function onLetters(world, random, { name, touches, max }) {
  const s = random.pick(allSubscriptions)
  const letters = (await lettersOf(world, random, s)).slice(0, random.integer(1, max))
  if (letters.length === 0) return
  const ids = letters.map(({ event_id: id }) => id)
  await tell(world, random, { name, touches, s, ids, args: { ids: letters.map(({ id }) => id) } })
}

/** Of one type, whoever they were for. */
async function retryLetters(world, random) {
  const one = pickKnown(world, random)
  if (one === undefined) return
  const { type } = one
  await tell(world, random, { name: 'retryLetters', touches: 'redrive', filter: { type }, args: { type } })
}

async function recover(world, random) {
  const s = random.pick(allSubscriptions)
  const since = new Date(world.nowMs() - 5_000).toISOString()
  await tell(world, random, { name: 'recover', touches: 'redrive', s, args: { name: s, since } })
}

async function replay(world, random) {
  const s = random.pick(allSubscriptions)
  const ids = someIds(world, random)
  if (ids.length > 0)
    await tell(world, random, { name: 'replay', touches: 'replay', s, ids, args: { name: s, ids } })
}

/** Slow, and aborted in the middle by the same process. */
async function abortReplay(world, random) {
  const s = random.pick(allSubscriptions)
  const ids = someIds(world, random)
  if (ids.length === 0) return
  const args = { name: s, ids, afterMs: random.integer(0, 1_000) }
  await tell(world, random, { name: 'abortReplay', touches: 'replay', s, ids, args })
}

const someIds = (world, random) =>
  world.known
    .slice(-300)
    .filter(() => random.chance(0.1))
    .map(({ id }) => id)

async function reset(world, random) {
  const one = pickKnown(world, random)
  if (one !== undefined)
    await tell(world, random, { name: 'reset', touches: 'reset', ids: [one.id], args: { id: one.id } })
}

async function unblock(world, random) {
  const s = random.pick(['block', 'plain', 'pulled', 'hook', 'block', 'memory'])
  const query = `status=${random.pick(['blocked', 'retrying'])}&limit=50`
  const path = `/subscribers/${world.subscriberIds.get(s)}/lanes?${query}`
  const { json } = await world.ask(random, { method: 'GET', path })
  const lanes = json?.lanes ?? []
  if (lanes.length === 0) return
  const { ordering_key: key, head_event_id: head } = random.pick(lanes)
  const verb = random.pick(['retry', 'skip', 'discard'])
  const fields = { touches: `lane ${verb}`, s, key, ids: [head] }
  await tell(world, random, { name: 'unblock', ...fields, args: { name: s, key, verb } })
}
