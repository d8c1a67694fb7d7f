/** A process that works with nothing but `posthorn/client`: its worker leases, renews and settles by itself. */
import { setTimeout as delay } from 'node:timers/promises'
import { PosthornClient } from '../../../dist/client/index.js'
import { openRecorder } from '../../crash/support/recorder.js'
import { digestOf } from '../payload-text.js'
import { outcomeOf } from './outcomes.js'
import { watchStalls } from './stalls.js'

const subscription = 'client'
const timeoutMs = 1_500
const config = JSON.parse(process.argv[2])
const record = openRecorder(config.record)
process.on('disconnect', () => process.exit(3))
watchStalls(record)
let calm = config.calm
let begun = 0
let underWay = 0
process.on('message', ({ no, command }) => {
  if (command === 'calm') calm = true
  process.send({ no, type: 'ok', value: underWay })
})

/** Whichever server answers: as behind a balancer. Which one leased, renewed or settled an event is recorded. */
async function balanced(url, init) {
  const at = Math.floor(Math.random() * config.ports.length)
  const server = `server${at}`
  carried(server, idsIn(init?.body))
  const path = String(url).replace('127.0.0.1:1', `127.0.0.1:${config.ports[at]}`)
  carried(server, idsIn(path))
  const response = await fetch(path, init)
  if (path.includes('/events/subscribe')) carried(server, idsIn(await response.clone().text()))
  return response
}

const eventIds = [/"(?:event_)?id":(\d+)/g, /\/events\/(\d+)\//g]
const idsIn = (text) =>
  typeof text === 'string'
    ? eventIds.flatMap((one) => [...text.matchAll(one)].map(([, id]) => Number(id)))
    : []

function carried(server, ids) {
  if (ids.length > 0) record('carried', { s: subscription, server, ids })
}

const client = new PosthornClient({ url: 'http://127.0.0.1:1', fetch: balanced, timeoutMs: 5_000 })
const worker = client.worker(
  {
    ...{ subscription, workerId: config.workerId, concurrency: 6, leaseSeconds: 3, waitSeconds: 1 },
    ...{ timeoutMs, log: false },
  },
  counted,
)

async function counted(event, attempt) {
  underWay++
  try {
    return await handle(event, attempt)
  } finally {
    underWay--
  }
}

async function handle(event, attempt) {
  const what = { no: ++begun, s: subscription, u: event.payload.u, id: event.id }
  const { number, failures } = attempt
  const { payload, payloadText, orderingKey: key } = event
  record('begin', { ...what, key, attempt: number, failures, hash: digestOf(payloadText) })
  const { outcome, ms } = outcomeOf({ payload, attempt: number, subscription, config, calm })
  await delay(ms)
  if (outcome === 'timeout') {
    await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve, { once: true }))
    record('end', { ...what, outcome: 'timeout' })
    throw new Error('timed out')
  }
  const said = ['throw', 'snooze', 'bury', 'crash'].includes(outcome) ? outcome : 'ok'
  record('end', { ...what, outcome: said })
  if (said === 'throw') throw new Error('by plan')
  if (said === 'snooze') attempt.snooze(20 + ms)
  if (said === 'bury') attempt.bury('by plan')
  if (said === 'crash') process.kill(process.pid, 'SIGKILL')
}

let isStopping = false
process.on('SIGTERM', () => {
  if (isStopping) return
  isStopping = true
  void stop()
})

async function stop() {
  await worker.stop({ graceMs: 2_000 })
  record('stopped')
  process.exit(0)
}

/** A server that will not have the worker ends it: then it begins anew, as a supervisor would make it. */
async function workOn() {
  for (;;) {
    await worker
      .run()
      .catch((error) => record('worker refused', { why: String(error.message).slice(0, 300) }))
    if (isStopping) return
    await delay(200)
  }
}
void workOn()
process.send('ready')
