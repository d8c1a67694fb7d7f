/**
 * B9: what does a process cost that has nothing to do, and does its memory stay? `posthorn serve` as it is, on a database
 * of its own. Goals: at most 3 queries and 1 % of a CPU per second, also with 1,000 parked long polls; with 100,000
 * waiting and while 1,000,000 are processed its memory grows by at most 5 % over the last third.
 */
import { Agent, get } from 'node:http'
import { startServe } from './idle-server.js'
import { verdict } from './rounds.js'
import { formatNumber } from './table.js'
import { pause, waitUntil } from './workload.js'

const seconds = Number(process.env.BENCH_SECONDS ?? 30)
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
/** Once the collector has tidied up what the start has left. */
const settleMs = 20_000
const queriesMax = 3
const cpuMax = 1
const growthMax = 0.05
const parts = { idle: measureIdle, 'long polls': measureLongPolls, memory: measureMemory }

const chosen = process.env.BENCH_SHAPE
for (const [name, measure] of Object.entries(parts)) {
  if (chosen === undefined || name.includes(chosen)) await withServer(measure)
}

async function withServer(measure) {
  const server = await startServe()
  try {
    // Somebody to send to and somebody to pull: a server that nobody uses at all would have less to ask.
    await server.call('POST', '/subscribers', {
      name: 'hook',
      url: 'http://example.com/',
      event_types: ['hook'],
    })
    await server.call('POST', '/subscribers', { name: 'pull', via: 'pull', event_types: ['pull'] })
    await measure(server)
  } finally {
    await server.stop()
  }
}

async function measureIdle(server) {
  await judgeRest(server, 'B9 idle')
}

async function measureLongPolls(server) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1_000 })
  const polls = Array.from({ length: 1_000 }, (_, n) =>
    get(`${server.url}/events/subscribe?worker_id=w${n}&tags=t${n % 10}&wait=60`, { agent }).on(
      'error',
      () => undefined,
    ),
  )
  const isParked = async () => /^posthorn_long_polls_waiting 1000$/m.test(await server.metrics())
  await waitUntil(isParked, { pauseMs: 200, limitMs: 20_000, what: '1,000 parked long polls' })
  await judgeRest(server, 'B9 idle with 1,000 long polls')
  if (!(await isParked())) throw new Error('A long poll ended before it was measured')
  for (const poll of polls) poll.destroy()
  agent.destroy()
}

async function judgeRest(server, title) {
  await pause(settleMs)
  server.takeQueries()
  const before = server.cpuSeconds()
  const beganAt = performance.now()
  await pause(seconds * 1000)
  const took = (performance.now() - beganAt) / 1000
  const asked = server.takeQueries()
  const perSecond = asked.reduce((sum, [, count]) => sum + count, 0) / took
  const cpu = (100 * (server.cpuSeconds() - before)) / took
  console.log(`\n${title}, ${seconds} s: ${formatNumber(perSecond)} queries/s, ${formatNumber(cpu)} % CPU`)
  for (const [statement, count] of asked) console.log(`  ${formatNumber(count / took)}/s  ${statement}`)
  verdict({ title, what: `queries/s / ${queriesMax}`, ratios: [perSecond / queriesMax], atMost: 1 })
  verdict({ title, what: `CPU / ${cpuMax} %`, ratios: [cpu / cpuMax], atMost: 1 })
}

/** Published and pulled over HTTP, a thousand at a time, behind 100,000 that nobody takes. */
async function measureMemory(server) {
  const batch = (tags) =>
    Array.from({ length: 1_000 }, (_, n) => ({ title: 'n', tags, payload: { n, note: 'x'.repeat(64) } }))
  for (let n = 0; n < 100; n++) await server.call('POST', '/events/batch', { events: batch('waiting') })
  await pause(settleMs)
  const waitingBytes = server.rssBytes()
  const sizes = []
  for (let done = 0; done < events; done += 1_000) {
    await server.call('POST', '/events/batch', { events: batch('work') })
    const leased = await server.call('GET', '/events/subscribe?worker_id=w&tags=work&limit=1000')
    const outcomes = leased.map(({ id, lease_token }) => ({ event_id: id, lease_token, outcome: 'complete' }))
    const { results } = await server.call('POST', '/events/settle', { outcomes })
    const settled = results.filter(({ status }) => status === 200).length
    if (settled !== 1_000) throw new Error(`${settled} of 1,000 were settled`)
    sizes.push(server.rssBytes())
  }
  const growth = growthOf(sizes.slice(-Math.ceil(sizes.length / 3)))
  const megabytes = (bytes) => `${formatNumber(bytes / 2 ** 20)} MB`
  const last = megabytes(sizes.at(-1))
  console.log(
    `\nB9 memory: ${megabytes(waitingBytes)} with 100,000 waiting, ${last} after ${formatNumber(events)}`,
  )
  console.log(`  grown by ${formatNumber(100 * growth)} % over the last third`)
  verdict({ title: 'B9 memory', what: 'growth / 5 %', ratios: [Math.max(0, growth) / growthMax], atMost: 1 })
}

/** By the straight line that fits best: what the collector leaves goes up and down. */
function growthOf(sizes) {
  const middle = (sizes.length - 1) / 2
  const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length
  let above = 0
  let below = 0
  for (const [place, size] of sizes.entries()) {
    above += (place - middle) * (size - mean)
    below += (place - middle) ** 2
  }
  const slope = below === 0 ? 0 : above / below
  return (slope * (sizes.length - 1)) / (mean - slope * middle)
}
