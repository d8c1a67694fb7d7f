/**
 * B10: how fast does one process drain a memory queue of 100,000 events with no-op handlers, persistence on?
 * Goal: at least 4 × our own drain of a durable queue (B1), or 400,000 events/s if that is less; and no more memory
 * after a million events than before.
 *
 * Measured is the time from resuming the queue until the last event is settled and that is persisted. The handlers of
 * both look at nothing but the event's id: parsing a payload takes a third as long as all the rest that memory does.
 */
import { posthorn, posthornMemory, printSettings, takingPart } from './contenders.js'
import { compare, verdict } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber } from './table.js'
import { createRecord, makeEvent, makeEvents } from './workload.js'

const count = 100_000
const million = 1_000_000
const enough = 400_000
const servers = givenServers()
const contenders = takingPart(servers, [posthorn, posthornMemory])
printSettings([posthornMemory], 'memory')

const rates = []
await compare({
  title: 'B10 drain of a memory queue, no-op handlers, one process',
  metrics: ['events/s'],
  contenders: contenders.map((contender) => ({ name: contender.name, run: () => drain(contender) })),
  goals: [],
})
const title = 'B10 memory queues'
const ratios = rates.map(({ durable, memory }) => memory / Math.min(4 * durable, enough))
verdict({ title, what: 'of 4 × our own B1, or of 400,000 events/s', ratios, atLeast: 1 })
await together()
await stayFlat()

async function drain(contender) {
  const record = createRecord(count)
  const request = { events: makeEvents(count), record, limitMs: 120_000, numberOf: byId }
  const seconds = await contender.drain(servers, request)
  record.verify(contender.name)
  note(contender, count / seconds)
  return { 'events/s': count / seconds }
}

/** In a schema of its own the ids of events are 1, 2, 3 … */
function byId(event) {
  return event.id - 1
}

/** Rounds turn round, so that either may come first. */
function note(contender, rate) {
  const key = contender === posthorn ? 'durable' : 'memory'
  const open = rates.find((round) => round[key] === undefined)
  if (open === undefined) rates.push({ [key]: rate })
  else open[key] = rate
}

async function together() {
  const record = createRecord(count)
  const request = { events: makeEvents(count), record, limitMs: 120_000 }
  const seconds = await posthornMemory.publishAndDrain(servers, request)
  record.verify(posthornMemory.name)
  console.log(`  published and drained together: ${formatNumber(count / seconds)} events/s`)
}

/** Resident memory over a million events, by thirds: the last must not grow. */
async function stayFlat() {
  const record = createRecord(million)
  const sizes = []
  const request = { events: generate(million), record, limitMs: 300_000 }
  await posthornMemory.publishAndDrain(servers, {
    ...request,
    onBatch: () => sizes.push(process.memoryUsage().rss),
  })
  record.verify(posthornMemory.name)
  const last = sizes.slice(-Math.floor(sizes.length / 3))
  const half = Math.floor(last.length / 2)
  const growth = mean(last.slice(half)) / mean(last.slice(0, half))
  const megabytes = sizes.map((bytes) => Math.round(bytes / 2 ** 20)).filter((_, n) => n % 100 === 99)
  console.log(`  resident memory in MB after each 100,000 events: ${megabytes.join(' ')}`)
  verdict({ title, what: 'memory in the last third of a million events', ratios: [growth], atMost: 1.05 })
}

function* generate(total) {
  for (let n = 0; n < total; n++) yield makeEvent(n)
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
