/**
 * B8: does it stay fast while another transaction holds a snapshot open, publishing and consuming 500,000 events?
 * Goal: the last 50,000 at least 0.8 × as fast as the first 50,000, with and without ordering keys.
 *
 * The snapshot is taken before the first publish. Two kinds: a transaction that only reads, and one that also holds a
 * transaction id. Events are published in portions of 1,000 whenever the backlog is short, so both sides run throughout.
 */
import pg from 'pg'
import { posthorn, printSettings } from './contenders.js'
import { roundCount, verdict } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber, formatRow } from './table.js'
import { createRecord, makeEvent, waitUntil, within } from './workload.js'

const total = 500_000
const edge = 50_000
const backlogMax = 20_000
const servers = givenServers()
printSettings([posthorn], 'drain')

const variants = [
  { name: 'no keys, snapshot', keyCount: 0, statement: 'select 1 from pg_class limit 1' },
  { name: 'no keys, snapshot and xid', keyCount: 0, statement: 'select pg_current_xact_id()' },
  { name: '1,000 keys, snapshot', keyCount: 1000, statement: 'select 1 from pg_class limit 1' },
  { name: '1,000 keys, snapshot and xid', keyCount: 1000, statement: 'select pg_current_xact_id()' },
]
const widths = [36, 14, 14, 8]
const ratios = variants.map(() => [])

console.log(`\nB8 ${total} events under a held snapshot`)
console.log(formatRow(['round, held', 'first 50,000/s', 'last 50,000/s', 'ratio'], widths))
// Each round publishes and drains two million events.
for (let round = 1; round <= roundCount({ inAll: 1 }); round++) {
  for (const [at, variant] of variants.entries()) {
    const { first, last } = await runHeld(variant)
    ratios[at].push(last / first)
    console.log(
      formatRow([`${round} ${variant.name}`, ...[first, last, last / first].map(formatNumber)], widths),
    )
  }
}
for (const [at, { name }] of variants.entries()) {
  verdict({ title: `B8 ${name}`, what: 'last / first 50,000', ratios: ratios[at], atLeast: 0.8 })
}

async function runHeld({ statement, keyCount }) {
  const record = createRecord(total, keyCount)
  const marks = new Float64Array(total / edge + 1)
  const runner = await posthorn.openRunner(servers, ({ n }) => {
    record.ran(n)
    if (record.distinct === 1) marks[0] = performance.now()
    if (record.distinct % edge === 0) marks[record.distinct / edge] = performance.now()
  })
  const holder = new pg.Client(servers.database)
  await holder.connect()
  await holder.query('begin isolation level repeatable read')
  await holder.query(statement)

  await within(
    300_000,
    'posthorn under a held snapshot',
    Promise.all([publishPortions(runner, record, keyCount), record.done]),
  )
  await waitUntil(runner.isSettled, { what: 'a settled queue' })
  await holder.query('rollback')
  await holder.end()
  await runner.close()
  record.verify('posthorn')
  const rate = (from) => edge / ((marks[from + 1] - marks[from]) / 1000)
  return { first: rate(0), last: rate(marks.length - 2) }
}

async function publishPortions(runner, record, keyCount) {
  for (let published = 0; published < total; ) {
    if (published - record.distinct > backlogMax) {
      await waitUntil(() => published - record.distinct <= backlogMax, { what: 'a shorter backlog' })
    }
    const events = Array.from({ length: 1000 }, (_, at) => makeEvent(published + at, keyCount))
    await runner.publishMany(events)
    published += events.length
  }
}
