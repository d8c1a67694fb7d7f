/**
 * A process with a memory queue that starts, publishes, works and stops, and kills itself at its n-th word about the
 * queue to the database, right before it is sent or right before its answer is read: every statement of a claim, load,
 * persist, checkpoint, compaction and release is one, and every COMMIT after such a statement.
 */
import { Socket } from 'node:net'
import { createPosthorn } from '../../../dist/index.js'
import { Ledger } from '../../../dist/memory/ledger.js'
import { randomFor } from '../support/random.js'
import { openRecorder } from '../support/recorder.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
process.send('ready')

countDown(config)
watchPersists()
const hub = await createPosthorn({
  database: config.database,
  schema: config.schema,
  workerId: config.workerId,
  log: process.env.POSTHORN_CRASH_LOG ?? false,
  pollMs: 20,
  upkeep: false,
})
const retry = { kind: 'fixed', delayMs: 3_600_000, failuresMax: 2 }
hub.on('memory', { name: 'm', storage: 'memory', persistenceThreshold: config.threshold, retry }, handle)
hub.events.on('settled', ({ eventId: id, settlement }) => record('settled', { id, settlement }))
await hub.start()
for (let batch = 0; batch < config.batches; batch++) await publish(batch)
await settled()
await hub.memory.checkpoint(hub.memory.views[0].subscription.name)
await hub.stop()
record('stopped')
process.exit(0)

/** Some are buried, and some stay for the last process, which does them all. */
async function handle({ id, payload, orderingKey: key }, attempt) {
  record('begin', { id, key, number: attempt.number })
  if (config.isLast) return
  const { fate } = payload
  if (fate === 'slow' && attempt.number === 1) attempt.snooze(3_600_000)
  if (fate === 'fails' && attempt.number === 1) throw new Error('not yet')
  if (fate === 'poor') attempt.bury('poor')
}

async function publish(batch) {
  const random = randomFor(config.seed, config.workerId, batch)
  const events = Array.from({ length: random.integer(1, config.batchMax) }, () => ({
    type: 'memory',
    payload: { fate: random.pick(['good', 'good', 'good', 'good', 'slow', 'fails', 'poor']) },
    ...(random.chance(0.4) ? { orderingKey: `k${random.integer(1, 3)}` } : {}),
  }))
  const published = await hub.publishMany(events)
  for (const [place, { id, durability }] of published.entries()) {
    record('published', { id, durability, key: events[place].orderingKey ?? null })
  }
}

async function settled() {
  while (hub.memory.views[0]?.isBusy) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** What a persist covers is decided when it is put together, and known to be written when its COMMIT is answered. */
function watchPersists() {
  const { take, saved } = Ledger.prototype
  Ledger.prototype.take = function (...limits) {
    record('take')
    return take.apply(this, limits)
  }
  Ledger.prototype.saved = function (...page) {
    record('saved')
    return saved.apply(this, page)
  }
}

function countDown({ wordsMax, isSent }) {
  let words = 0
  const { write } = Socket.prototype
  const spoken = new WeakSet()
  Socket.prototype.write = function (bytes, ...rest) {
    const text = Buffer.isBuffer(bytes) ? bytes.toString('latin1') : ''
    const isStatement = /^B/.test(text) && /_memory/.test(text) && !/(draw|route)_memory/.test(text)
    const isCommit = spoken.has(this) && /^Q....commit/s.test(text)
    if (isStatement) spoken.add(this)
    if (isCommit) spoken.delete(this)
    if (isStatement || isCommit) {
      words++
      record('word', { words, isCommit })
      if (words === wordsMax && isSent) this.prependOnceListener('data', die)
      if (words === wordsMax && !isSent) die()
    }
    return write.call(this, bytes, ...rest)
  }
}

function die() {
  process.kill(process.pid, 'SIGKILL')
}
