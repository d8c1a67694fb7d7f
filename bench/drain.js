/**
 * B1: how fast does one process drain 100,000 published events with no-op handlers, every attempt in the audit log?
 * Goal: at least 5 × graphile-worker, 12 × pg-boss, 5 × BullMQ.
 *
 * Measured is the time from starting to consume until the last event is settled in the database. The two slow peers
 * drain fewer events, which favours them if anything, because the whole bench has to end in 15 minutes.
 */
import { bullmq, graphileWorker, pgBoss, posthorn, printSettings, takingPart } from './contenders.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber } from './table.js'
import { createRecord, makeEvents } from './workload.js'

const counts = new Map([
  [posthorn, 100_000],
  [graphileWorker, 100_000],
  [pgBoss, 30_000],
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
    { metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 5 },
    { metric: 'events/s', of: 'posthorn', over: 'pg-boss', atLeast: 12 },
    { metric: 'events/s', of: 'posthorn', over: 'bullmq', atLeast: 5 },
  ],
})

// Not a documented setting of theirs, but worth knowing: what statistics and very large batches do for them.
for (const contender of takingPart(servers, [graphileWorker, pgBoss])) {
  const figures = await drain(contender, 100_000, { analyzed: true, batchSize: 5000, loopCount: 2 })
  const rate = formatNumber(figures['events/s'])
  console.log(
    `  for orientation, ${contender.name} on an analyzed table (pg-boss: batches of 5,000): ${rate} events/s`,
  )
}

async function drain(contender, count, settings = {}) {
  const record = createRecord(count)
  const seconds = await contender.drain(servers, {
    events: makeEvents(count),
    record,
    limitMs: 120_000,
    ...settings,
  })
  record.verify(contender.name)
  return { 'events/s': count / seconds }
}
