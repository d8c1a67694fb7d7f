/**
 * B12: how fast do 16 workers over HTTP go round the plainest loop there is: subscribe for one event, complete it, again?
 * Against a plain implementation of the same calls (plain-queue.js). Every event has two tags, and each worker asks for one.
 * Goal: at least 1.5 × its rate.
 *
 * CPU is of the server's process and of all of PostgreSQL, per event.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startServerClock } from './cpu-clock.js'
import { openConnection } from './http-connection.js'
import { compare } from './rounds.js'
import { givenServers, nextSchema } from './server.js'

const workers = 16
const eventsCount = 30_000
const warmUpMs = 1_500
const ms = 5_000
const servers = givenServers()

await compare({
  title: `B12 ${workers} workers over HTTP: subscribe for one event, complete it`,
  metrics: ['events/s', 'Node µs', 'PostgreSQL µs'],
  contenders: [
    { name: 'posthorn', run: () => measure('pull-server.js') },
    { name: 'plain', run: () => measure('plain-queue.js') },
  ],
  goals: [{ metric: 'events/s', of: 'posthorn', over: 'plain', atLeast: 1.5 }],
})

async function measure(script) {
  const server = await startServer(script)
  await server.ask({ fill: eventsCount })
  const done = new Set()
  const run = { isOver: false }
  const working = Array.from({ length: workers }, (_, place) => work(server, `bench:${place}`, done, run))
  await pause(warmUpMs)
  const clock = await startServerClock(servers.database)
  const { cpu: before } = await server.ask('cpu')
  const [doneBefore, startedAt] = [done.size, performance.now()]
  await pause(ms)
  const [doneAfter, endedAt] = [done.size, performance.now()]
  const { cpu: after } = await server.ask('cpu')
  const postgresUs = await clock.stop()
  run.isOver = true
  await Promise.all(working)
  const { completed } = await server.ask('count')
  if (completed !== done.size)
    throw new Error(`${script}: ${done.size} events were done, ${completed} are stored so`)
  await server.stop()
  const events = doneAfter - doneBefore
  return {
    'events/s': (events * 1000) / (endedAt - startedAt),
    'Node µs': (after.user + after.system - before.user - before.system) / events,
    'PostgreSQL µs': postgresUs / events,
  }
}

/** One worker: its next event as soon as the last is completed. */
async function work({ url, key }, workerId, done, run) {
  const connection = await openConnection({ url, key })
  while (!run.isOver) {
    const leased = await connection.request('GET', `/events/subscribe?tags=bench&worker_id=${workerId}`)
    if (leased.status !== 200) throw new Error(`Subscribe was answered ${leased.status}: ${leased.text}`)
    const { id } = JSON.parse(leased.text)
    if (done.has(id)) throw new Error(`Event ${id} was leased twice`)
    const body = JSON.stringify({ worker_id: workerId, execution_time_ms: 1 })
    const completed = await connection.request('POST', `/events/${id}/complete`, body)
    if (completed.status !== 200)
      throw new Error(`Complete was answered ${completed.status}: ${completed.text}`)
    done.add(id)
  }
  connection.close()
}

async function startServer(script) {
  const setup = { database: servers.database, schema: nextSchema('pull') }
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), [], {
    env: { ...process.env, BENCH_SETUP: JSON.stringify(setup) },
  })
  const [{ url, key }] = await once(child, 'message')
  return {
    url,
    key,
    async ask(message) {
      child.send(message)
      const [answer] = await once(child, 'message')
      return answer
    },
    async stop() {
      child.send('stop')
      await once(child, 'exit')
    },
  }
}

function pause(time) {
  return new Promise((resolve) => setTimeout(resolve, time))
}
