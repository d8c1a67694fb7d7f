/**
 * B3: how fast are events stored, in batches of 1,000 and one by one from 64 callers?
 * Goal: batches at least 2.5 × graphile-worker's addJobs and 0.5 × a bare multi-row insert of the same rows;
 * one by one at least 10 × graphile-worker's addJob.
 *
 * Nobody consumes meanwhile. Acknowledged events are counted in the tables afterwards: one missing fails the bench.
 */
import { bullmq, graphileWorker, pgBoss, posthorn, printSettings, takingPart } from './contenders.js'
import { rawInsert } from './raw-insert.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { inBatches, makeEvent, makeEvents } from './workload.js'

const batchSize = 1000
const callerCount = 64
const callMs = 3000
const servers = givenServers()
const batchers = takingPart(servers, [posthorn, graphileWorker, rawInsert, pgBoss, bullmq])
const singles = takingPart(servers, [posthorn, graphileWorker])
printSettings(batchers, 'publish')

await compare({
  title: `B3 publish in batches of ${batchSize}, one caller`,
  metrics: ['events/s'],
  contenders: batchers.map((contender) => ({ name: contender.name, run: () => publishBatches(contender) })),
  goals: [
    { metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 2.5 },
    { metric: 'events/s', of: 'posthorn', over: 'raw insert', atLeast: 0.5 },
  ],
})

await compare({
  title: `B3 publish one by one, ${callerCount} callers`,
  metrics: ['events/s'],
  contenders: singles.map((contender) => ({ name: contender.name, run: () => publishSingly(contender) })),
  goals: [{ metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 10 }],
})

async function publishBatches(contender) {
  const isSlow = contender === pgBoss || contender === bullmq
  const count = isSlow ? 20_000 : 50_000
  const publisher = await contender.openPublisher(servers)
  const batches = [...inBatches(makeEvents(count), batchSize)]
  await publisher.publishMany(batches[0])
  const begin = performance.now()
  for (const batch of batches) await publisher.publishMany(batch)
  const seconds = (performance.now() - begin) / 1000
  await verifyStored(contender, publisher, count + batchSize)
  await publisher.close()
  return { 'events/s': count / seconds }
}

async function publishSingly(contender) {
  const publisher = await contender.openPublisher(servers)
  let acknowledged = 0
  let next = 0
  const begin = performance.now()
  const end = begin + callMs
  const call = async () => {
    while (performance.now() < end) {
      await publisher.publish(makeEvent(next++))
      acknowledged++
    }
  }
  await Promise.all(Array.from({ length: callerCount }, call))
  const seconds = (performance.now() - begin) / 1000
  await verifyStored(contender, publisher, acknowledged)
  await publisher.close()
  return { 'events/s': acknowledged / seconds }
}

async function verifyStored(contender, publisher, expected) {
  const stored = await publisher.stored()
  if (stored !== expected) {
    throw new Error(`${contender.name}: ${expected} events were acknowledged, ${stored} are stored`)
  }
}
