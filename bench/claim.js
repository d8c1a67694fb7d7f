/**
 * B7: does one claim cost the same with 1,000,000 events in the tables as with 1,000?
 * Goal: at most 1.5 × the time and 1.2 × the buffers, for every shape of the backlog.
 *
 * Each shape is built twice, small and big, in two schemas. Claims alternate between them, each in a transaction that
 * is rolled back, so that all of them meet the same backlog.
 */
import pg from 'pg'
import { admitBuffers, admitOnce, claimBuffers, claimOnce, holdBack, openBacklog } from './posthorn.js'
import { verdict } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber, formatRow, median } from './table.js'
import { makeEvent } from './workload.js'

const claimCount = 200
const warmUpCount = 20
const explainCount = 20
const limit = 100
const waitingCount = 1000
const servers = givenServers()
const widths = [60, 12, 12, 14, 14]

const shapes = [
  { name: '1,000,000 waiting', big: (backlog) => backlog.publishAll(unkeyed(1_000_000 - waitingCount)) },
  { name: 'one lane of 200,000 blocked at its head', big: (backlog) => blockLanes(backlog, 1, 200_000) },
  { name: '100,000 lanes waiting for a retry', big: (backlog) => blockLanes(backlog, 100_000, 1) },
  { name: '1,000,000 delayed', big: (backlog) => backlog.publishAll(delayed(1_000_000)) },
  {
    name: '1,000,000 of a common tag, 100 of a rare one',
    claims: [['rare'], ['common']],
    waiting: () => tagged(waitingCount, rareTag),
    big: (backlog) => backlog.publishAll(tagged(1_000_000 - waitingCount, () => ['common'])),
  },
  {
    name: '1,000,000 tags, one event each',
    claims: [['user-500']],
    waiting: () => tagged(waitingCount, (n) => [`user-${n}`]),
    big: (backlog) =>
      backlog.publishAll(tagged(1_000_000 - waitingCount, (n) => [`user-${n + waitingCount}`])),
  },
  {
    // As a runner that finds nothing: it lets in what it can, and claims of that.
    name: '240,000 keyed arrivals not yet admitted',
    isAtTheDoor: true,
    small: (backlog) => backlog.publishEach(waitingCount),
    big: (backlog) => backlog.publishEach(240_000),
  },
  {
    name: 'beside a queue that drains and holds 100,000',
    isAtTheDoor: true,
    small: async (backlog) => {
      await backlog.holdByDrain(waitingCount)
      await backlog.publishEach(waitingCount)
    },
    big: async (backlog) => {
      await backlog.holdByDrain(100_000)
      await backlog.publishEach(waitingCount)
    },
  },
]

console.log(`\nB7 one claim of up to ${limit}, medians of ${claimCount} claims each`)
console.log(formatRow(['shape', 'small ms', 'big ms', 'small buffers', 'big buffers'], widths))
const chosen = process.env.BENCH_SHAPE
for (const shape of shapes) {
  if (chosen === undefined || shape.name.includes(chosen)) await measure(shape)
}

async function measure(shape) {
  const small = await build(shape, 'small')
  const big = await build(shape, 'big')
  const client = new pg.Client(servers.database)
  await client.connect()
  for (const tags of shape.claims ?? [undefined]) {
    const name = tags === undefined ? shape.name : `${shape.name}: claim ${tags}`
    report(name, await alternate(client, { tags, admits: shape.isAtTheDoor }, [small, big]))
  }
  await client.end()
  await small.close()
  await big.close()
}

function report(name, [small, big]) {
  console.log(formatRow([name, ...[small.ms, big.ms, small.buffers, big.buffers].map(formatNumber)], widths))
  const title = `B7 ${name}`
  verdict({ title, what: 'big / small, time', ratios: [big.ms / small.ms], atMost: 1.5 })
  verdict({ title, what: 'big / small, buffers', ratios: [big.buffers / small.buffers], atMost: 1.2 })
}

/** The bulk goes in first, so that what a claim must find is the youngest; then the statistics are as autovacuum would leave them. */
async function build(shape, size) {
  const backlog = await openBacklog(servers, (event, attempt) => holdHead(backlog, event, attempt))
  if (size === 'big') await shape.big(backlog)
  else await shape.small?.(backlog)
  if (!shape.isAtTheDoor) {
    await backlog.publishAll(shape.waiting?.() ?? unkeyed(waitingCount))
    await backlog.admit()
  }
  const client = new pg.Client(servers.database)
  await client.connect()
  await client.query('vacuum analyze')
  await client.query('checkpoint')
  await client.end()
  return backlog
}

async function alternate(client, how, backlogs) {
  const times = backlogs.map(() => [])
  for (let claim = 0; claim < warmUpCount + claimCount; claim++) {
    for (const at of claim % 2 === 0 ? [0, 1] : [1, 0]) {
      const { ms, leased } = await rolledBack(client, () => timeClaim(client, backlogs[at].schema, how))
      if (leased === 0 || leased > limit) throw new Error(`Expected a claim of 1 to ${limit}, got ${leased}`)
      if (claim >= warmUpCount) times[at].push(ms)
    }
  }
  const figures = []
  for (const [at, { schema }] of backlogs.entries()) {
    const buffers = []
    for (let claim = 0; claim < explainCount; claim++) {
      buffers.push(await rolledBack(client, () => countBuffers(client, schema, how)))
    }
    figures.push({ ms: median(times[at]), buffers: median(buffers) })
  }
  return figures
}

async function countBuffers(client, schema, { tags, admits }) {
  const admitted = admits ? await admitBuffers(client, schema) : 0
  return admitted + (await claimBuffers(client, schema, { limit, tags }))
}

async function timeClaim(client, schema, { tags, admits }) {
  const begin = performance.now()
  if (admits) await admitOnce(client, schema)
  const leased = await claimOnce(client, schema, { limit, tags })
  return { ms: performance.now() - begin, leased }
}

async function rolledBack(client, work) {
  await client.query('begin')
  try {
    return await work()
  } finally {
    await client.query('rollback')
  }
}

/** Each lane's head is attempted once and held back; the rest of the lane waits behind it. */
async function blockLanes(backlog, laneCount, laneLength) {
  backlog.heldCount = 0
  await backlog.publishAll(Array.from({ length: laneCount }, (_, lane) => laneEvent(lane, 0)))
  await backlog.runUntil(() => backlog.heldCount >= laneCount)
  for (let n = 1; n < laneLength; n += 10_000) {
    const length = Math.min(10_000, laneLength - n)
    await backlog.publishAll(Array.from({ length }, (_, more) => laneEvent(0, n + more)))
  }
}

function holdHead(backlog, _event, attempt) {
  backlog.heldCount++
  return holdBack(attempt)
}

function laneEvent(lane, n) {
  return { key: `lane-${lane}`, payload: { n, lane } }
}

function* unkeyed(count) {
  for (let n = 0; n < count; n++) yield makeEvent(n)
}

function* delayed(count) {
  const runAt = new Date(Date.now() + 3_600_000)
  for (let n = 0; n < count; n++) yield { ...makeEvent(n), runAt }
}

function* tagged(count, tagsOf) {
  for (let n = 0; n < count; n++) yield { ...makeEvent(n), tags: tagsOf(n) }
}

/** Every tenth of the waiting ones. */
function rareTag(n) {
  return [n % 10 === 0 ? 'rare' : 'common']
}
