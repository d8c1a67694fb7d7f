/**
 * B10: does every list answer within 50 ms of the server's time with 1,000,000 events and 198,000 open deliveries stored? Events,
 * deliveries and dead letters, by each filter alone, by pairs of filters and by filters that hardly anything matches, from
 * either end and from the middle. And one event?
 *
 * The total is part of every answer. A page that stopped before it was full is marked with `…`. The table has medians of the
 * time that the server's process was on a core (on Linux; elsewhere clock times), so what else the machine does adds little.
 * `BENCH_LIST_ROUNDS` says how often each list is asked for.
 */

import { readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { fillStock, layouts, leaseMany, stockCount } from './list-stock.js'
import { verdict } from './rounds.js'
import { dropSchema, givenServers, nextSchema } from './server.js'
import { formatNumber, formatRow, median } from './table.js'

const { checkPaging } = await import('../dist/core/paging.js')
const { migrate } = await import('../dist/db/migrate.js')
const { openPostgres } = await import('../dist/db/postgres.js')
const { listDeadLetterHeads } = await import('../dist/deliveries/dead-letters.js')
const { listDeliveries } = await import('../dist/deliveries/list-deliveries.js')
const { getEvent } = await import('../dist/events/get-event.js')
const { listEvents, listUnfinished } = await import('../dist/events/list-events.js')
const { searchPayload } = await import('../dist/events/search-payload.js')

const rounds = Number(process.env.BENCH_LIST_ROUNDS ?? 5)
const goalMs = 50
const daysAgo = (days) => new Date(Date.now() - days * 86_400_000)

/** By what they ask for: a pair takes two of different kinds. */
const eventKinds = [
  {
    'a common type': { type: 'order.created' },
    'a tenth by type': { type: 'invoice.sent' },
    'a middling type': { type: 'middling.thing' },
    'a fresh type': { type: 'fresh.thing' },
    'a rare type': { type: 'rare.thing' },
    'a type prefix': { type: 'order.*' },
    'no such type': { type: 'nothing' },
  },
  {
    'a common tag': { tags: ['eu'] },
    'a middling tag': { tags: ['middling'] },
    'a fresh tag': { tags: ['fresh'] },
    'a rare tag': { tags: ['rare'] },
    'no such tag': { tags: ['nothing'] },
  },
  { 'an ordering key': { orderingKey: 'key-3' }, 'a busy key': { orderingKey: 'busy' } },
  {
    'a day': { createdFrom: daysAgo(6), createdTo: daysAgo(5) },
    'until a day ago': { createdTo: daysAgo(1) },
  },
]
const eventStatuses = [
  undefined,
  'PENDING',
  'PROCESSING',
  'COMPLETED',
  'FAILED',
  'COMPLETED_WITH_ERRORS',
  'EXPIRED',
  'CANCELLED',
]
const deliveryStatuses = [
  undefined,
  'pending',
  'failed',
  'delivering',
  'delivered',
  'dlq',
  'expired',
  'cancelled',
]
const subscribers = {
  'any subscriber': {},
  'a common subscriber': { subscription: 1 },
  'a small subscriber': { subscription: 2 },
  'a rare subscriber': { subscription: 3 },
}
const letterKinds = [
  { buried: { kind: 'buried' }, expired: { kind: 'expired' } },
  { 'a common subscriber': { subscription: 1 }, 'a rare subscriber': { subscription: 3 } },
  { 'a common type': { eventType: 'order.created' }, 'a rare type': { eventType: 'rare.thing' } },
  { 'since a day': { since: daysAgo(1) }, 'until six days ago': { until: daysAgo(6) } },
  { 'with redriven ones': { includeRedriven: true } },
]

/** Each list: how it is asked for, by which filters, and what a cursor in its middle says. */
const lists = [
  {
    name: 'events',
    ask: (db, filter) => listEvents(db, filter),
    filters: {
      ...singles(eventKinds),
      ...pairs(eventKinds),
      ...withStatus(eventStatuses, singles(eventKinds)),
    },
    limits: [20, 1000],
    cursorList: 'events',
  },
  {
    name: 'unfinished events',
    ask: (db, filter) => listUnfinished(db, filter),
    filters: singles(eventKinds),
    limits: [1000],
  },
  {
    name: 'payloads',
    ask: (db, filter) =>
      searchPayload(db, { createdFrom: daysAgo(7), paths: [{ path: ['n'], value: '7' }], ...filter }),
    filters: singles(eventKinds),
    limits: [20],
  },
  {
    name: 'deliveries',
    ask: (db, filter) => listDeliveries(db, filter),
    filters: { ...withStatus(deliveryStatuses, subscribers), overdue: { pickedBefore: daysAgo(0.01) } },
    limits: [20, 1000],
    cursorList: 'deliveries',
  },
  {
    name: 'dead letters',
    ask: (db, filter) => listDeadLetterHeads(db, filter),
    filters: { ...singles(letterKinds), ...pairs(letterKinds) },
    limits: [20, 1000],
  },
]

function singles(kinds) {
  return { 'no filter': {}, ...Object.assign({}, ...kinds) }
}

function pairs(kinds) {
  const named = kinds.flatMap((kind, at) =>
    kinds
      .slice(at + 1)
      .flatMap((other) =>
        Object.entries(kind).flatMap(([name, filter]) =>
          Object.entries(other).map(([otherName, also]) => [`${name}, ${otherName}`, { ...filter, ...also }]),
        ),
      ),
  )
  return Object.fromEntries(named)
}

function withStatus(statuses, filters) {
  const named = statuses.flatMap((status) =>
    Object.entries(filters).map(([name, filter]) => [
      `${status ?? 'any status'}, ${name}`,
      status === undefined ? filter : { ...filter, status },
    ]),
  )
  return Object.fromEntries(named)
}

const heads = ['', 'oldest first', 'newest first', 'onwards', 'backwards', 'total']
const widths = [50, 13, 13, 13, 13, 12]

if (process.env.BENCH_SERVERS !== undefined) await measureLayouts()

async function measureLayouts() {
  const servers = givenServers()
  for (const layout of layouts) {
    const schema = nextSchema('list')
    const settings = { connection: servers.database, schema, statementTimeoutMs: 600_000, poolMax: 1 }
    const db = await openPostgres(settings)
    await migrate(db)
    await fillStock(db, layout)
    for (const list of lists) await measureList(db, layout, list)
    await measureOne(db, layout)
    await dropSchema(db, schema)
    await db.close()
  }
}

export async function measureAll(db, layout) {
  for (const list of lists) await measureList(db, layout, list)
}

async function measureList(db, layout, { name, ask, filters, limits, cursorList }) {
  const title = `B10 list of ${name}, ${formatNumber(stockCount)} events: ${layout.name} (median ms of the server)`
  console.log(`\n${title}`)
  console.log(formatRow(heads, widths))
  const slowest = { ms: 0, name: '' }
  const late = []
  for (const limit of limits) {
    for (const [filterName, filter] of Object.entries(filters)) {
      const label = `${limit} × ${filterName}`
      const row = await measureFilter(db, ask, { ...filter, limit }, cursorList)
      console.log(formatRow([label, ...row.medians, row.total], widths))
      if (row.ms > slowest.ms) Object.assign(slowest, { ms: row.ms, name: label })
      if (row.ms > goalMs) late.push(label)
    }
  }
  if (late.length > 0) console.log(`  over ${goalMs} ms (${late.length}): ${late.join('; ')}`)
  console.log(`  load of the machine, last minutes: ${loadavg().map(formatNumber).join(', ')}`)
  const what = `slowest (${slowest.name}, ${formatNumber(slowest.ms)} ms) / ${goalMs} ms`
  verdict({ title, what, ratios: [slowest.ms / goalMs], atMost: 1 })
}

/** From both ends and, where a cursor can be made up, from the middle in both directions. */
async function measureFilter(db, ask, filter, cursorList) {
  const middle = (order) =>
    checkPaging(cursorList, { ...filter, order }, /./).cursorAt(String(stockCount / 2 + 12_345))
  const starts = [{ order: 'asc' }, { order: 'desc' }]
  if (cursorList !== undefined) {
    starts.push({ order: 'asc', cursor: middle('asc') }, { order: 'desc', cursor: middle('desc') })
  }
  const medians = []
  let ms = 0
  let total = ''
  for (const start of starts) {
    let page
    const time = await medianMs(db, async () => {
      page = await ask(db, { ...filter, ...start })
    })
    total = page.total === undefined ? '' : `${page.totalIsEstimate ? '~' : ''}${page.total}`
    medians.push(`${formatNumber(time)}${page.searchedTo == null ? '' : ' …'}`)
    ms = Math.max(ms, time)
  }
  return { medians, ms, total }
}

/** One event with its log, from every tenth of the stock, with few leases out and with 50,000. */
async function measureOne(db, layout) {
  const title = `B10 one of ${formatNumber(stockCount)} events: ${layout.name} (median ms of the server)`
  console.log(`\n${title}`)
  const slowest = { ms: 0, name: '' }
  for (const leased of [100, 50_000]) {
    if (leased > 100) await leaseMany(db, leased)
    for (let tenth = 0; tenth < 10; tenth++) {
      const id = (tenth * stockCount) / 10 + 4_321
      const ms = await medianMs(db, () => getEvent(db, { id, logs: 'with' }))
      const name = `event ${formatNumber(id)} with ${formatNumber(leased)} in flight`
      console.log(formatRow([name, formatNumber(ms)], widths))
      if (ms > slowest.ms) Object.assign(slowest, { ms, name })
    }
  }
  const what = `slowest (${slowest.name}, ${formatNumber(slowest.ms)} ms) / ${goalMs} ms`
  verdict({ title, what, ratios: [slowest.ms / goalMs], atMost: 1 })
}

async function medianMs(db, ask) {
  const { rows } = await db.query('select pg_backend_pid() as pid')
  const times = []
  for (let round = 0; round < rounds; round++) {
    const begin = serverMs(rows[0].pid)
    await ask()
    times.push(serverMs(rows[0].pid) - begin)
  }
  return median(times)
}

/** How long a process was on a core. The pool has one connection, so this process does all the work. */
function serverMs(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
  } catch {
    return performance.now()
  }
}
