/**
 * B13: publishing and handling at once, in one process: four publishers in batches of 100, at most 2,000 events in flight,
 * for 20 s, on tables that have a history. How many events/s, and how long from publish to handled (p50)?
 * Goal: at least 4 × graphile-worker's rate, and at most 0.3 × its p50.
 */
import { graphileWorker, posthorn, printSettings, takingPart } from './contenders.js'
import { compare, roundCount } from './rounds.js'
import { givenServers } from './server.js'
import { quantile } from './table.js'
import { pause } from './workload.js'

const publishers = 4
const batchSize = 100
const inFlightMax = 2_000
const historyCount = 20_000
const warmUpMs = 3_000
const ms = 20_000
const servers = givenServers()
const contenders = takingPart(servers, [posthorn, graphileWorker])
printSettings(contenders, 'beside')

await compare({
  title: `B13 ${publishers} publishers in batches of ${batchSize} beside handlers, at most ${inFlightMax} in flight`,
  metrics: ['events/s', 'p50 ms'],
  contenders: contenders.map((contender) => ({ name: contender.name, run: () => measure(contender) })),
  goals: [
    { metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 4 },
    { metric: 'p50 ms', of: 'posthorn', over: 'graphile-worker', atMost: 0.3 },
  ],
  rounds: roundCount({ usual: 5, inAll: 3 }),
})

async function measure(contender) {
  const publishedAt = new Map()
  const run = { isOver: false, isMeasured: false, handled: 0, latenciesMs: [] }
  const hub = await contender.openBusy(servers, (n) => {
    const at = publishedAt.get(n)
    if (at === undefined) throw new Error(`${contender.name}: event ${n} ran twice`)
    publishedAt.delete(n)
    run.handled++
    if (run.isMeasured) run.latenciesMs.push(performance.now() - at)
  })
  const counter = { next: 0 }
  await publishUntil(hub, publishedAt, counter, () => counter.next >= historyCount)
  while (publishedAt.size > 0) await pause(10)
  await hub.analyze()
  const working = Array.from({ length: publishers }, () =>
    publishUntil(hub, publishedAt, counter, () => run.isOver),
  )
  await pause(warmUpMs)
  run.isMeasured = true
  const [before, startedAt] = [run.handled, performance.now()]
  await pause(ms)
  const [after, endedAt] = [run.handled, performance.now()]
  run.isOver = true
  await Promise.all(working)
  for (let waited = 0; publishedAt.size > 0; waited += 10) {
    if (waited > 60_000) throw new Error(`${contender.name}: ${publishedAt.size} events were lost`)
    await pause(10)
  }
  await hub.close()
  return {
    'events/s': ((after - before) * 1000) / (endedAt - startedAt),
    'p50 ms': quantile(run.latenciesMs, 0.5),
  }
}

async function publishUntil(hub, publishedAt, counter, isOver) {
  while (!isOver()) {
    if (publishedAt.size + batchSize > inFlightMax) {
      await pause(1)
      continue
    }
    const events = Array.from({ length: batchSize }, () => ({
      key: null,
      payload: { n: counter.next++, note: 'x'.repeat(64) },
    }))
    const now = performance.now()
    for (const { payload } of events) publishedAt.set(payload.n, now)
    await hub.publishMany(events)
  }
}
