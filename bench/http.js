/**
 * B5: what does HTTP cost? POST /events, durable, on 64 connections, against a route of the same server with the same
 * key check, parsing and schema and a constant answer (goal ≥ 0.85). A pull worker over HTTP, no-op, against our own
 * handlers in process (goal ≥ 0.3). And at 200 publishes/s the median answer takes at most 10 ms (seed 004).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { posthorn } from './contenders.js'
import { load } from './http-load.js'
import { compare, roundCount, verdict } from './rounds.js'
import { givenServers, nextSchema } from './server.js'
import { formatNumber, median } from './table.js'
import { createRecord, makeEvents, within } from './workload.js'

const servers = givenServers()
const connections = 64
const ms = 3_000
const eventsCount = 50_000
const limitMs = 120_000
const body = JSON.stringify({
  title: 'Order',
  tags: 'orders',
  payload: { order: 42, total: '19.90', items: [1, 2, 3] },
})

await compareRoutes()
await measureLatency()
await compareWorkers()

async function compareRoutes() {
  const api = await startApi()
  const posting = (path) => async () => {
    const { perSecond, failed } = await load({ ...api, path, body, connections, ms })
    if (failed > 0) throw new Error(`${failed} requests to ${path} failed`)
    return { 'requests/s': perSecond }
  }
  await compare({
    title: `B5 POST /events, durable, ${connections} connections`,
    metrics: ['requests/s'],
    contenders: [
      { name: 'POST /events', run: posting('/events') },
      { name: 'no-op', run: posting('/no-op') },
    ],
    goals: [{ metric: 'requests/s', of: 'POST /events', over: 'no-op', atLeast: 0.85 }],
  })
  await api.stop()
}

async function measureLatency() {
  const api = await startApi()
  const { latenciesMs } = await load({ ...api, path: '/events', body, connections: 8, ms, perSecond: 200 })
  const sorted = latenciesMs.sort((a, b) => a - b)
  const p99 = sorted[Math.floor(sorted.length * 0.99)]
  console.log(`\nPOST /events at 200/s: p50 ${formatNumber(median(sorted))} ms, p99 ${formatNumber(p99)} ms`)
  verdict({
    title: 'B5 POST /events at 200/s',
    what: 'p50 / 10 ms',
    ratios: [median(sorted) / 10],
    atMost: 1,
  })
  await api.stop()
}

async function compareWorkers() {
  await compare({
    title: `B5 pull worker over HTTP, no-op, ${eventsCount} events`,
    metrics: ['events/s'],
    contenders: [
      { name: 'pull worker', run: drainByPull },
      { name: 'handlers', run: drainInProcess },
    ],
    goals: [{ metric: 'events/s', of: 'pull worker', over: 'handlers', atLeast: 0.3 }],
    rounds: roundCount(),
  })
}

async function drainByPull() {
  const { PosthornClient } = await import('../dist/client/index.js')
  const api = await startApi()
  const client = new PosthornClient({ url: api.url, apiKey: api.key })
  for (let from = 0; from < eventsCount; from += 1_000) {
    await client.publishMany(
      Array.from({ length: 1_000 }, (_, place) => ({
        title: 'Work',
        tags: ['bench'],
        payload: { n: from + place },
      })),
    )
  }
  const record = createRecord(eventsCount)
  const worker = client.worker({ tags: ['bench'], concurrency: 10 }, (event) => record.ran(event.payload.n))
  const startedAt = performance.now()
  await worker.start()
  await within(limitMs, 'the pull worker', record.done)
  await worker.stop()
  const seconds = (performance.now() - startedAt) / 1000
  record.verify('the pull worker')
  for (const status of ['PENDING', 'PROCESSING']) {
    const { total } = await client.listEvents({ status, limit: 1 })
    if (total > 0) throw new Error(`${total} events are still ${status}`)
  }
  await api.stop()
  return { 'events/s': eventsCount / seconds }
}

async function drainInProcess() {
  const record = createRecord(eventsCount)
  const seconds = await posthorn.drain(servers, { events: makeEvents(eventsCount), record, limitMs })
  record.verify('posthorn')
  return { 'events/s': eventsCount / seconds }
}

async function startApi() {
  const setup = { database: servers.database, schema: nextSchema('http') }
  const child = fork(fileURLToPath(new URL('http-server.js', import.meta.url)), [], {
    env: { ...process.env, BENCH_SETUP: JSON.stringify(setup) },
  })
  const [{ url, key }] = await once(child, 'message')
  return {
    ...{ url, key },
    stop: async () => {
      child.send('stop')
      await once(child, 'exit')
    },
  }
}
