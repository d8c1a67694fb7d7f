/**
 * B1: how fast does one process drain 100,000 published events with no-op handlers, every attempt in the audit log?
 * Goal: at least 4 × graphile-worker, 4 × pg-boss, 5 × BullMQ.
 *
 * Measured is the time from starting to consume until the last event is settled in the database. The peers' tables
 * have statistics, as in any system that runs for a while. BullMQ drains fewer events, which favours it if anything.
 */
import { bullmq, graphileWorker, pgBoss, posthorn, printSettings, takingPart } from './contenders.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { createRecord, makeEvents } from './workload.js'

const counts = new Map([
  [posthorn, 100_000],
  [graphileWorker, 100_000],
  [pgBoss, 100_000],
  [bullmq, 30_000],
])
const servers = givenServers()
const contenders = takingPart(servers, [...counts.keys()])
printSettings(contenders, 'drain')
for (const contender of contenders) console.log(`  ${contender.name} drains ${counts.get(contender)} events`)

await compare({
  title: 'B1 drain, no-op handlers, one process',
  metrics: ['events/s'],
  contenders: contenders.map((contender) => ({
    name: contender.name,
    run: () => drain(contender, counts.get(contender)),
  })),
  goals: [
    { metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 4 },
    { metric: 'events/s', of: 'posthorn', over: 'pg-boss', atLeast: 4 },
    { metric: 'events/s', of: 'posthorn', over: 'bullmq', atLeast: 5 },
  ],
})

async function drain(contender, count) {
  const record = createRecord(count)
  const seconds = await contender.drain(servers, {
    events: makeEvents(count),
    record,
    limitMs: 120_000,
    analyzed: true,
  })
  record.verify(contender.name)
  return { 'events/s': count / seconds }
}
