/** Lists: whoever asks is answered with what was asked for, and whoever walks to the end meets everything once. */

/** Records of operations/listing.js, and the walks of answers.js. */
export function findWrongLists(model, { deliveries, stored = [], walks = [] }) {
  const wrong = model.wrongLists.map(({ path, why }) => ({ rule: 'list', text: `${path}: ${why}` }))
  // While something still moves, two walks meet it in two states.
  if (deliveries.some(({ status }) => moving.has(status))) return wrong
  // Types may be defined as not kept: those events go at any time, also between two walks.
  const kept = new Set(stored.filter(({ type }) => !type?.startsWith('typed.')).map(({ id }) => id))
  const [, ...others] = walks
  return [...wrong, ...walks.flatMap(findTwice), ...others.flatMap((walk) => compare(walks, walk, kept))]
}

const moving = new Set(['pending', 'delivering', 'failed'])

function findTwice({ path, names }) {
  const seen = new Set()
  const twice = names.filter((name) => seen.size === seen.add(name).size)
  return twice.slice(0, 3).map((name) => ({ rule: 'list', text: `${path} has ${name} twice` }))
}

/** Walks over the same, in another order or in parts, meet the same. */
function compare(walks, { path, of, names, eventIds }, kept) {
  const first = walks.find((one) => one.of === of)
  if (first.path === path) return []
  const isKept = (ids) => (_, place) => kept.has(ids[place])
  const expected = new Set(first.names.filter(isKept(first.eventIds)))
  const met = new Set(names.filter(isKept(eventIds)))
  const missing = [...expected].filter((name) => !met.has(name))
  const beyond = [...met].filter((name) => !expected.has(name))
  return [
    ...missing
      .slice(0, 3)
      .map((name) => ({ rule: 'list', text: `${path} lacks ${name}, which ${first.path} has` })),
    ...beyond
      .slice(0, 3)
      .map((name) => ({ rule: 'list', text: `${path} has ${name}, which ${first.path} lacks` })),
  ]
}
