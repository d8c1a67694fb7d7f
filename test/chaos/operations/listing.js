/** Lists under load, with filters and cursors: each page has only what was asked for, and a walk meets nothing twice. */
import { allSubscriptions, passing } from '../topology.js'
import { pickKnown } from './repairing.js'

export const listing = {
  'list.events': { weight: 2, place: 'server', run: (world, random) => walk(world, random, 'events') },
  'list.deliveries': {
    weight: 2,
    place: 'server',
    run: (world, random) => walk(world, random, 'deliveries'),
  },
  'list.letters': { weight: 1, place: 'server', run: (world, random) => walk(world, random, 'letters') },
  'read.event': { weight: 2, place: 'server', run: readEvent },
}

const eventStatuses = ['PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED']
const deliveryStatuses = ['pending', 'delivering', 'failed', 'delivered', 'dlq', 'expired', 'cancelled']
const lasting = allSubscriptions.filter((name) => !passing.includes(name))

const lists = {
  events: {
    ...{ path: '/events', field: 'events', nameOf: ({ id }) => id, eventIdOf: ({ id }) => id },
    filters: (random, { type, key }) => ({
      status: random.pick(eventStatuses),
      type,
      ...(key != null && { ordering_key: key }),
    }),
    fits: { status: 'status', type: 'type', ordering_key: 'ordering_key' },
  },
  deliveries: {
    ...{ path: '/deliveries', field: 'deliveries', nameOf: ({ id }) => id },
    eventIdOf: ({ event_id: id }) => id,
    filters: (random, { id }) => ({
      subscriber: random.pick(lasting),
      status: random.pick(deliveryStatuses),
      ...(random.chance(0.2) && { event_id: id }),
    }),
    fits: { subscriber: 'subscriber', status: 'status', event_id: 'event_id' },
  },
  letters: {
    ...{ path: '/dlq', field: 'dead_letters', nameOf: ({ id }) => id },
    filters: (random, { type }) => ({
      subscriber: random.pick(lasting),
      event_type: type,
      kind: random.pick(['buried', 'expired']),
      include_retried: true,
    }),
    fits: { subscriber: 'subscriber', kind: 'kind' },
  },
}

async function walk(world, random, what) {
  const known = pickKnown(world, random)
  if (known === undefined) return
  const list = lists[what]
  const wanted = Object.entries(list.filters(random, known)).filter(() => random.chance(0.5))
  const filter = Object.fromEntries(wanted)
  const order = random.pick(['asc', 'desc'])
  const names = new Set()
  let [cursor, last] = []
  for (let pages = random.integer(1, 6); pages > 0; pages--) {
    const limit = random.integer(1, 200)
    const query = new URLSearchParams({ ...filter, order, limit, ...(cursor && { cursor }) })
    const path = `${list.path}?${query}`
    const answer = await world.operate(`list.${what}`, {}, () => world.ask(random, { method: 'GET', path }))
    const { status, json } = answer
    const report = (why) => world.record('wrong list', { path, why })
    if (status >= 400 && status < 500) return report(`was answered ${status}: ${JSON.stringify(json)}`)
    if (answer.type !== 'ok') return
    for (const one of json[list.field]) {
      const name = list.nameOf(one)
      const misfit = wanted.find(([field, value]) => list.fits[field] && one[list.fits[field]] !== value)
      if (misfit !== undefined)
        return report(`has ${name}, whose ${misfit[0]} is ${one[list.fits[misfit[0]]]}`)
      if (names.has(name)) return report(`has ${name}, which was on a page before`)
      names.add(name)
      const id = list.eventIdOf?.(one)
      if (id !== undefined && last !== undefined && (order === 'asc' ? id < last : id > last))
        return report(`has ${name} of event ${id} after event ${last}`)
      last = id
    }
    cursor = json.next_cursor
    if (cursor === undefined) return
  }
}

/** One event, as it is or with its log; it may have been removed. */
async function readEvent(world, random) {
  const known = pickKnown(world, random)
  if (known === undefined) return
  const path = `/events/${known.id}${random.pick(['', '?include_logs=true'])}`
  const { status, json } = await world.operate('read.event', {}, () =>
    world.ask(random, { method: 'GET', path }),
  )
  if (status >= 400 && status < 500 && status !== 404)
    world.record('wrong list', { path, why: `was answered ${status}: ${JSON.stringify(json)}` })
}
