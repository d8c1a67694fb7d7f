/**
 * B10: does a list of events answer within 50 ms with 1,000,000 events stored, for every status, every other filter
 * and every pair of them, with and without a status, from either end and from the middle? And one event?
 *
 * The total is part of every answer. Each filter is asked several times; the table has the medians. What else the machine
 * does adds to them, so its load is printed with them.
 */

import { loadavg } from 'node:os'
import { fillStock, layouts, leaseMany, stockCount } from './list-stock.js'
import { verdict } from './rounds.js'
import { dropSchema, givenServers, nextSchema } from './server.js'
import { formatNumber, formatRow, median } from './table.js'

const { migrate } = await import('../dist/db/migrate.js')
const { openPostgres } = await import('../dist/db/postgres.js')
const { getEvent } = await import('../dist/events/get-event.js')
const { listEvents } = await import('../dist/events/list-events.js')

const askedCount = 7
const goalMs = 50
const statuses = [
  undefined,
  'PENDING',
  'PROCESSING',
  'COMPLETED',
  'FAILED',
  'COMPLETED_WITH_ERRORS',
  'EXPIRED',
  'CANCELLED',
]
const daysAgo = (days) => new Date(Date.now() - days * 86_400_000)
/** By what they ask for: a pair takes two of different kinds. */
const kinds = [
  {
    'a common type': { type: 'order.created' },
    'a tenth by type': { type: 'invoice.sent' },
    'a middling type': { type: 'middling.thing' },
    'a fresh type': { type: 'fresh.thing' },
    'a rare type': { type: 'rare.thing' },
    'a type prefix': { type: 'order.*' },
  },
  {
    'a common tag': { tags: ['eu'] },
    'a middling tag': { tags: ['middling'] },
    'a fresh tag': { tags: ['fresh'] },
    'a rare tag': { tags: ['rare'] },
  },
  {
    'an ordering key': { orderingKey: 'key-3' },
    'a busy key': { orderingKey: 'busy' },
  },
  {
    'a day': { createdFrom: daysAgo(6), createdTo: daysAgo(5) },
    'until a day ago': { createdTo: daysAgo(1) },
  },
]
const singles = { 'no other filter': {}, ...Object.assign({}, ...kinds) }
const pairs = Object.fromEntries(
  kinds.flatMap((kind, at) => kinds.slice(at + 1).flatMap((other) => pairsOf(kind, other))),
)
const heads = ['', 'oldest first', 'newest first', 'onwards', 'backwards', 'total']
const widths = [42, 13, 13, 13, 13, 12]
const servers = givenServers()

for (const layout of layouts) {
  const schema = nextSchema('list')
  const db = await openPostgres({ connection: servers.database, schema, statementTimeoutMs: 600_000 })
  await migrate(db)
  await fillStock(db, layout)
  await measureLayout(db, layout)
  await measureOne(db, layout)
  await dropSchema(db, schema)
  await db.close()
}

async function measureLayout(db, layout) {
  const title = `B10 list of ${formatNumber(stockCount)} events: ${layout.name} (median ms)`
  console.log(`\n${title}`)
  console.log(formatRow(heads, widths))
  const slowest = { ms: 0, name: '' }
  const late = []
  for (const status of statuses) {
    const filters = status === undefined ? { ...singles, ...pairs } : singles
    for (const [name, filter] of Object.entries(filters)) {
      const asked = status === undefined ? filter : { ...filter, status }
      const row = await measureFilter(db, asked)
      const label = `${status ?? 'any status'}, ${name}`
      console.log(formatRow([label, ...row.medians.map(formatNumber), row.total], widths))
      const ms = Math.max(...row.medians)
      if (ms > slowest.ms) Object.assign(slowest, { ms, name: label })
      if (ms > goalMs) late.push(label)
    }
  }
  if (late.length > 0) console.log(`  over ${goalMs} ms (${late.length}): ${late.join('; ')}`)
  console.log(`  load of the machine, last minutes: ${loadavg().map(formatNumber).join(', ')}`)
  const what = `slowest (${slowest.name}, ${formatNumber(slowest.ms)} ms) / ${goalMs} ms`
  verdict({ title, what, ratios: [slowest.ms / goalMs], atMost: 1 })
}

function pairsOf(kind, other) {
  return Object.entries(kind).flatMap(([name, filter]) =>
    Object.entries(other).map(([otherName, otherFilter]) => [
      `${name}, ${otherName}`,
      { ...filter, ...otherFilter },
    ]),
  )
}

/** From both ends, and from a cursor in the middle in both directions. */
async function measureFilter(db, filter) {
  const middle = (order) => Buffer.from(`${order}:${stockCount / 2 + 12_345}`).toString('base64url')
  const medians = []
  let total = ''
  for (const paging of [
    { order: 'asc' },
    { order: 'desc' },
    { order: 'asc', cursor: middle('asc') },
    { order: 'desc', cursor: middle('desc') },
  ]) {
    medians.push(
      await medianMs(async () => {
        const page = await listEvents(db, { ...filter, ...paging })
        total = `${page.totalIsEstimate ? '~' : ''}${page.total}`
      }),
    )
  }
  return { medians, total }
}

/** One event with its log, from every tenth of the stock, with few leases out and with 50,000. */
async function measureOne(db, layout) {
  const title = `B10 one of ${formatNumber(stockCount)} events: ${layout.name} (median ms)`
  console.log(`\n${title}`)
  const slowest = { ms: 0, name: '' }
  for (const leased of [100, 50_000]) {
    if (leased > 100) await leaseMany(db, leased)
    for (let tenth = 0; tenth < 10; tenth++) {
      const id = (tenth * stockCount) / 10 + 4_321
      const ms = await medianMs(() => getEvent(db, { id, logs: 'with' }))
      const name = `event ${formatNumber(id)} with ${formatNumber(leased)} in flight`
      console.log(formatRow([name, formatNumber(ms)], widths))
      if (ms > slowest.ms) Object.assign(slowest, { ms, name })
    }
  }
  const what = `slowest (${slowest.name}, ${formatNumber(slowest.ms)} ms) / ${goalMs} ms`
  verdict({ title, what, ratios: [slowest.ms / goalMs], atMost: 1 })
}

async function medianMs(ask) {
  const times = []
  for (let asked = 0; asked < askedCount; asked++) {
    const begin = performance.now()
    await ask()
    times.push(performance.now() - begin)
  }
  return median(times)
}
