/** A process that webhooks are sent to. It records what came before it answers, and what it answered. */
import { createServer } from 'node:http'
import { randomFor } from '../../crash/support/random.js'
import { monotonicUs, openRecorder } from '../../crash/support/recorder.js'
import { digestOf, memberText } from '../payload-text.js'
import { watchStalls } from './stalls.js'

const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
process.once('SIGTERM', () => process.exit(0))
watchStalls(record)
let calm = config.calm
let requests = 0
const usual = [500, 503, 400, 429, 302, 418, 409, 507, 'later', 'hang', 'reset']
const statuses = [...Array(34).fill(204), ...usual]
/** What the hub makes of a status; see `outcomes` in topology.js for those that are not as usual. */
const outcomesByStatus = { 302: 'bury', 400: 'bury', 507: 'bury', 409: 'ok', 410: 'gone' }
const retryAfterSecs = 1

const server = createServer((request, response) => {
  const arrivedAt = monotonicUs()
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => takeIn({ request, response, text: Buffer.concat(chunks).toString(), arrivedAt }))
})
server.listen(config.port, '127.0.0.1', () => process.send('ready'))
process.on('message', ({ no, command }) => {
  if (command === 'calm') calm = true
  process.send({ no, type: 'ok' })
})

const tickMs = 20
const stalledMs = 100
const gatherMs = 100
let tickedAt = performance.now()
let gathered
setInterval(() => {
  const now = performance.now()
  if (now - tickedAt > stalledMs && gathered === undefined) gather()
  tickedAt = now
}, tickMs).unref()

/** What came while this process was frozen is read in any order, so it is put in the order in which it must have been sent. */
function gather() {
  gathered = []
  setTimeout(() => {
    const all = gathered.toSorted((a, b) => a.place.key.localeCompare(b.place.key) || a.place.no - b.place.no)
    gathered = undefined
    for (const one of all) receive({ ...one, arrivedAt: monotonicUs() })
  }, gatherMs)
}

function takeIn(one) {
  if (gathered === undefined) return receive(one)
  const { headers } = one.request
  const no = Number(headers['posthorn-sequence'] ?? 0) * 1_000 + Number(headers['posthorn-attempt'])
  gathered.push({ ...one, place: { key: headers['posthorn-ordering-key'] ?? '', no } })
}

function receive({ request: { headers, url }, response, text, arrivedAt }) {
  const id = Number(headers['posthorn-event-id'])
  // A test of the endpoint is nobody's delivery.
  if (!(id > 0)) return response.writeHead(204).end()
  const payloadText = payloadTextIn(text)
  const payload = JSON.parse(payloadText)
  const attempt = Number(headers['posthorn-attempt'])
  const what = { no: ++requests, s: url.slice(1).split('?')[0], u: payload.u, id }
  const lane = headers['posthorn-ordering-key']
  record('begin', {
    ...{ at: arrivedAt, ...what, attempt, key: lane === undefined ? null : decodeURIComponent(lane) },
    hash: digestOf(payloadText),
    epoch: numberIn(headers['posthorn-lane-epoch']),
    sequence: numberIn(headers['posthorn-sequence']),
    by: numberIn(headers['x-chaos-pid']),
    ...(headers['posthorn-replay'] && { isReplay: true }),
    ...(headers['posthorn-out-of-order'] && { outOfOrder: true }),
  })
  const random = randomFor(config.seed, 'hook', what.u, attempt)
  const status = calm ? 204 : (payload.o?.[attempt - 1] ?? random.pick(statuses))
  if (status === 'hang') return response.once('close', () => record('end', { ...what, outcome: 'hang' }))
  if (status === 'reset') {
    record('end', { ...what, outcome: 'reset' })
    return response.destroy()
  }
  setTimeout(() => answer(response, what, status), random.next() * 8)
}

/** By each format: a payload of ours has a number, and what is put around it has none. */
const payloadTextIn = (text) => (memberText(text, 'u') === undefined ? memberText(text, 'data') : text)

const numberIn = (header) => (header === undefined ? undefined : Number(header))

function answer(response, what, status) {
  if (response.destroyed) return
  const isLater = status === 'later'
  const code = isLater ? 503 : status
  const outcome = code < 300 ? 'ok' : (outcomesByStatus[code] ?? 'throw')
  record('end', { ...what, outcome, ...(isLater && { afterMs: retryAfterSecs * 1_000 }) })
  response.writeHead(code, isLater ? { 'retry-after': String(retryAfterSecs) } : {}).end()
}
