/** A process that webhooks are sent to. It verifies each, and records when it came and what became of it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { LaneChecker, verify } from '../../../dist/webhooks/index.js'
import { randomFor } from '../support/random.js'
import { monotonicUs, openRecorder } from '../support/recorder.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
const lanes = new LaneChecker()
let secrets = {}
let requests = 0
process.on('disconnect', () => process.exit(3))
process.once('SIGTERM', () => process.exit(0))

const server = createServer((request, response) => {
  const arrivedAt = monotonicUs()
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => receive(request, response, { body: Buffer.concat(chunks), arrivedAt }))
})
const port = await listen(0)

process.on('message', async ({ ask, ...more }) => {
  if (ask === 'know') secrets = more.secrets
  if (ask === 'open') await listen(port)
  if (ask === 'close') await close()
  process.send({ port })
})
process.send('ready')

function receive(request, response, { body, arrivedAt }) {
  const no = ++requests
  const subscriber = request.url.slice(1)
  const webhook = read(request, body, subscriber)
  if (webhook === undefined) return response.writeHead(400).end()
  const { lane, id, eventId, attempt } = webhook
  record('request', {
    ...{ at: arrivedAt, no, subscriber, id, eventId, attempt },
    lane: lane && { key: lane.orderingKey, ...placeOf(lane) },
    verdict: lane && lanes.check(lane, { subscriber }),
  })
  let answered = false
  // Only what we have seen ourselves: a dead sender's request is over when its connection is.
  response.once('close', () => {
    if (!answered) record('answer', { no, outcome: 'closed' })
  })
  const { status, ms } = decide({ subscriber, eventId, attempt })
  if (status === null) return
  setTimeout(() => {
    if (response.closed || response.destroyed) return
    answered = true
    record('answer', { no, outcome: status < 300 ? 'delivered' : 'failed' })
    response.writeHead(status).end()
  }, ms)
}

function placeOf({ sequence, previousSequence, skipped }) {
  return { sequence, previous: previousSequence, skipped }
}

function read(request, body, subscriber) {
  try {
    // Some scenarios move the clock of the database, by which is signed.
    return verify(body, request.headers, secrets[subscriber], { toleranceSeconds: 3_600 })
  } catch (error) {
    record('forged', { subscriber, why: error.message })
    return undefined
  }
}

/** By chance, the same way whoever sends it. Status null: never. */
function decide({ subscriber, eventId, attempt }) {
  const { failShare = 0, hangShare = 0, msMin = 0, msMax } = config.behaviour
  const random = randomFor(config.seed, subscriber, eventId, attempt)
  const ms = msMin + random.next() * (msMax - msMin)
  const dice = random.next()
  if (dice < hangShare) return { status: null, ms }
  return { status: dice < hangShare + failShare ? 500 : 204, ms }
}

async function listen(wanted) {
  server.listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  return server.address().port
}

async function close() {
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}
