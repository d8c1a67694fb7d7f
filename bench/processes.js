/**
 * B2, second part: do several processes drain lanes as fast as one, and at the same cost? 100,000 events of 1,000 ordering keys
 * on one database. Goal: four processes reach at least the rate of one, with at most 1.2 × its CPU per event.
 *
 * CPU is of all our processes and of PostgreSQL, from the start of the drain to its end.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { startServerClock } from './cpu-clock.js'
import { posthorn } from './posthorn.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { makeEvents, waitUntil } from './workload.js'

const eventsCount = 100_000
const keyCount = 1_000
const servers = givenServers()

await compare({
  title: `B2 drain with ${keyCount} ordering keys by several processes`,
  metrics: ['events/s', 'CPU µs'],
  contenders: [1, 2, 4].map((count) => ({ name: nameOf(count), run: () => drainWith(count) })),
  goals: [
    { metric: 'events/s', of: nameOf(4), over: nameOf(1), atLeast: 1 },
    { metric: 'CPU µs', of: nameOf(4), over: nameOf(1), atMost: 1.2 },
  ],
})

function nameOf(count) {
  return count === 1 ? 'one process' : `${count} processes`
}

async function drainWith(count) {
  const backlog = await posthorn.openShared(servers, makeEvents(eventsCount, keyCount))
  const workers = await Promise.all(Array.from({ length: count }, () => startWorker(backlog.schema)))
  const clock = await startServerClock(servers.database)
  const startedAt = performance.now()
  for (const worker of workers) worker.send('start')
  await waitUntil(() => backlog.isSettled(), { pauseMs: 20, limitMs: 120_000, what: 'a settled queue' })
  const seconds = (performance.now() - startedAt) / 1000
  const postgresUs = await clock.stop()
  const told = await Promise.all(workers.map(stopWorker))
  await backlog.verify()
  await backlog.close()
  const handled = told.reduce((sum, one) => sum + one.handled, 0)
  if (handled !== eventsCount) throw new Error(`${handled} of ${eventsCount} events were handled`)
  const nodeUs = told.reduce((sum, one) => sum + one.cpuUs, 0)
  return { 'events/s': eventsCount / seconds, 'CPU µs': (postgresUs + nodeUs) / eventsCount }
}

async function startWorker(schema) {
  const child = fork(new URL('drain-worker.js', import.meta.url), [schema])
  await once(child, 'message')
  return child
}

async function stopWorker(child) {
  child.send('stop')
  const [told] = await once(child, 'message')
  await once(child, 'exit')
  return told
}
