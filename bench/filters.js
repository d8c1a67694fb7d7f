/**
 * B14: what does it cost to look into a large event? A payload of 1 MB is published, with 40 subscribers of 20
 * conditions each that all hold and an ordering key that is a number, against the same with 40 subscribers that ask for
 * nothing but the type. Goal: at most 3 × the time.
 *
 * Nobody consumes meanwhile. Both must be owed to all 40: a filter that lets through too little fails the bench.
 */
import { posthorn } from './contenders.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { median } from './table.js'

const subscribers = 40
const conditions = 20
const publishes = 15
const servers = givenServers()
const payload = makePayload()
const filter = makeFilter()

await compare({
  title: `B14 publish of ${JSON.stringify(payload).length} bytes to ${subscribers} subscribers`,
  metrics: ['ms'],
  contenders: [
    {
      name: `${conditions} conditions each`,
      run: () => publish({ filter, orderingKey: '/payload/lines/1000/price' }),
    },
    { name: 'no filters', run: () => publish({}) },
  ],
  goals: [{ metric: 'ms', of: `${conditions} conditions each`, over: 'no filters', atMost: 3 }],
})

async function publish(options) {
  const publisher = await posthorn.openFiltered(servers, { subscribers, options })
  const times = []
  await publisher.publish({ key: null, payload })
  for (let n = 0; n < publishes; n++) {
    const begin = performance.now()
    await publisher.publish({ key: null, payload })
    times.push(performance.now() - begin)
  }
  const owed = await publisher.owed()
  await publisher.close()
  if (owed !== (publishes + 1) * subscribers) throw new Error(`${owed} deliveries are owed`)
  return { ms: median(times) }
}

/** An order with many lines: numbers, texts, objects and lists as people send them. */
function makePayload() {
  const line = (n) => ({
    sku: `A-${n}`,
    title: `Line "${n}"`,
    quantity: n % 7,
    price: n / 100,
    tags: ['new', 'eu'],
  })
  const head = Object.fromEntries(Array.from({ length: conditions }, (_, n) => [`field${n}`, `value ${n}`]))
  const lines = []
  const room = 2 ** 20 - JSON.stringify({ ...head, lines }).length
  for (let size = 0, n = 0; ; n++) {
    size += JSON.stringify(line(n)).length + 1
    if (size >= room) return { ...head, lines }
    lines.push(line(n))
  }
}

/** Equal, any of, exists, prefix and range, in turn. */
function makeFilter() {
  const kinds = [
    (n) => `value ${n}`,
    (n) => ['something else', `value ${n}`],
    () => ({ exists: true }),
    () => ({ prefix: 'value' }),
  ]
  const ranges = Array.from({ length: 4 }, (_, n) => [`/payload/lines/${n * 1000}/price`, { gte: 0 }])
  const others = Array.from({ length: conditions - ranges.length }, (_, n) => [
    `/payload/field${n}`,
    kinds[n % kinds.length](n),
  ])
  return Object.fromEntries([...others, ...ranges])
}
