/**
 * B2: the same drain with 1,000 ordering keys, strictly first in first out per key.
 * Goal: at least 60 × graphile-worker's named queues, and at least 0.5 × our own drain without keys.
 *
 * Keys come in no pattern. Before the rounds each contender proves its order with handlers that take a turn of the
 * event loop. graphile-worker gets 2,000 jobs: 100,000 would take minutes each round, at a lower rate.
 */
import { graphileWorker, posthorn, printSettings, takingPart } from './contenders.js'
import { compare } from './rounds.js'
import { givenServers } from './server.js'
import { createRecord, createSerialRecord, makeEvents } from './workload.js'

const keyCount = 1000
const servers = givenServers()
const contenders = takingPart(servers, [posthorn, graphileWorker])
printSettings(contenders, 'lanes')
for (const contender of contenders) await proveOrder(contender)

await compare({
  title: `B2 drain with ${keyCount} ordering keys, strict FIFO`,
  metrics: ['events/s'],
  contenders: [
    ...contenders.map((contender) => ({
      name: contender.name,
      run: () => drain(contender, contender === graphileWorker ? 2000 : 100_000, keyCount),
    })),
    ...takingPart(servers, [posthorn]).map((contender) => ({
      name: 'posthorn without keys',
      run: () => drain(contender, 100_000, 0),
    })),
  ],
  goals: [
    { metric: 'events/s', of: 'posthorn', over: 'graphile-worker', atLeast: 60 },
    { metric: 'events/s', of: 'posthorn', over: 'posthorn without keys', atLeast: 0.5 },
  ],
})

async function drain(contender, count, keys) {
  const record = createRecord(count, keys)
  // Statistics slow graphile-worker's named queues down: it is spared them.
  const seconds = await contender.drain(servers, {
    events: makeEvents(count, keys),
    record,
    limitMs: 120_000,
    analyzed: false,
  })
  record.verify(contender.name)
  return { 'events/s': count / seconds }
}

async function proveOrder(contender) {
  const record = createSerialRecord(2000, 20)
  await contender.drain(servers, { events: makeEvents(2000, 20), record, limitMs: 60_000 })
  record.verify(contender.name)
  console.log(`  ${contender.name}: 2,000 events of 20 keys ran in order and one at a time per key`)
}
