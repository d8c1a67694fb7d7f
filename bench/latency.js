/**
 * B4: how long from publish to the start of the handler, in an idle system, from the same process and from another?
 * Goal: at most 0.6 × graphile-worker at p50 in the same process and 0.8 × from another, and at most 1 × at p99.
 *
 * Each sample is taken alone: publish, wait for the handler, pause 20–50 ms. The clock is CLOCK_MONOTONIC, read just
 * before publishing and carried in the payload, so both processes read the same one.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { graphileWorker, posthorn, printSettings, takingPart } from './contenders.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { quantile } from './table.js'
import { createRecord, monotonicMs, pause, within } from './workload.js'

const warmUpCount = 20
const sampleCount = 200
const servers = givenServers()
const contenders = takingPart(servers, [posthorn, graphileWorker])
printSettings(contenders, 'latency')

for (const [where, measure, p50Max] of [
  ['the same process', measureHere, 0.6],
  ['another process', measureAcross, 0.8],
]) {
  await compare({
    title: `B4 publish → handler starts, idle, published in ${where}, ${sampleCount} samples`,
    metrics: ['p50 ms', 'p99 ms'],
    contenders: contenders.map((contender) => ({ name: contender.name, run: () => measure(contender) })),
    goals: [
      { metric: 'p50 ms', of: 'posthorn', over: 'graphile-worker', atMost: p50Max },
      { metric: 'p99 ms', of: 'posthorn', over: 'graphile-worker', atMost: 1 },
    ],
  })
}

function measureHere(contender) {
  return measure(contender, async (runner) => ({
    publish: (n) => runner.publish({ key: null, payload: { n, at: monotonicMs() } }),
    close: async () => undefined,
  }))
}

function measureAcross(contender) {
  return measure(contender, async (runner) => {
    const child = fork(new URL('latency-publisher.js', import.meta.url), [contender.name, runner.schema])
    await once(child, 'message')
    return {
      async publish(n) {
        child.send({ n })
        await once(child, 'message')
      },
      async close() {
        const exited = once(child, 'exit')
        child.disconnect()
        await exited
      },
    }
  })
}

async function measure(contender, openPublisher) {
  const record = createRecord(warmUpCount + sampleCount)
  const samples = []
  let started = () => undefined
  const runner = await contender.openRunner(servers, ({ n, at }) => {
    const latencyMs = monotonicMs() - at
    record.ran(n)
    if (n >= warmUpCount) samples.push(latencyMs)
    started()
  })
  const publisher = await openPublisher(runner)
  for (let n = 0; n < warmUpCount + sampleCount; n++) {
    const starts = new Promise((resolve) => {
      started = resolve
    })
    await Promise.all([publisher.publish(n), within(10_000, `${contender.name}: event ${n}`, starts)])
    await pause(20 + Math.random() * 30)
  }
  await publisher.close()
  await runner.close()
  record.verify(contender.name)
  return { 'p50 ms': quantile(samples, 0.5), 'p99 ms': quantile(samples, 0.99) }
}
