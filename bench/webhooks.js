/**
 * B6: what do webhooks cost? To 50 local endpoints, 2.5 of which want each event: durable, signed, every exchange kept.
 * Against a bare loop that posts the same bodies to the same receivers with as many requests at once, over undici's pool,
 * the fastest client there is (goal ≥ 0.6); a loop over Node's own http client is shown beside. And with 5 of the
 * endpoints hanging: what the other 45 get, against what they get without them (goal ≥ 0.9).
 */
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { compare } from './rounds.js'
import { givenServers, nextSchema } from './server.js'
import { within } from './workload.js'

const servers = givenServers()
const endpoints = 50
const kinds = 20 // each wanted by two or three of the endpoints
const atOnce = 10 // for each endpoint
const eventsCount = 8_000
const limitMs = 120_000

await compare({
  title: `B6 ${eventsCount * 2.5} webhooks to ${endpoints} endpoints, ${atOnce} at once to each`,
  metrics: ['webhooks/s'],
  contenders: [
    { name: 'posthorn', run: () => send({ hanging: 0 }) },
    { name: 'bare http', run: () => postBarely(httpClient) },
    { name: 'bare undici', run: () => postBarely(undiciClient) },
  ],
  goals: [{ metric: 'webhooks/s', of: 'posthorn', over: 'bare undici', atLeast: 0.6 }],
})
await compare({
  title: 'B6 with 5 endpoints hanging: the other 45',
  metrics: ['webhooks/s'],
  contenders: [
    { name: '5 hang', run: () => send({ hanging: 5 }) },
    { name: 'none hangs', run: () => send({ hanging: 0, leftOut: 5 }) },
  ],
  goals: [{ metric: 'webhooks/s', of: '5 hang', over: 'none hangs', atLeast: 0.9 }],
})

async function send({ hanging, leftOut = 0 }) {
  const { openPosthorn } = await import('../dist/create.js')
  const receivers = await startReceivers(hanging)
  const options = {
    ...{ database: servers.database, schema: nextSchema('webhooks'), log: 'error', allowCidrs: '127.0.0.1' },
    secretKey: randomBytes(32).toString('base64'),
  }
  const quiet = { ...options, dispatcher: false }
  const { posthorn: publisher } = await openPosthorn(quiet)
  await publisher.start()
  for (const [place, url] of receivers.urls.entries()) {
    if (place < leftOut) continue
    await subscribe(publisher, url, place)
  }
  for (let from = 0; from < eventsCount; from += 1_000) await publisher.publishMany(eventsFrom(from))
  await publisher.stop()

  const expected = deliveriesTo(Math.max(hanging, leftOut))
  const all = receivers.expect(expected)
  const { posthorn: hub } = await openPosthorn(options)
  let settled = 0
  const allSettled = new Promise((resolve) => {
    hub.events.on('settled', ({ settlement }) => {
      if (settlement === 'complete' && ++settled === expected) resolve()
    })
  })
  const startedAt = performance.now()
  await hub.start()
  await within(limitMs, 'the webhooks', Promise.all([all, allSettled]))
  const seconds = (performance.now() - startedAt) / 1000
  await hub.stop({ graceMs: 0 })
  await receivers.stop()
  return { 'webhooks/s': expected / seconds }
}

async function subscribe(hub, url, place) {
  const { defineSubscription } = await import('../dist/domain/subscription.js')
  const definition = defineSubscription('webhook', [`kind.k${place % kinds}`], { name: `endpoint-${place}` })
  const endpoint = { url, headers: {}, format: 'standard', rules: {} }
  await hub.endpoints.create({ definition, endpoint, status: 'active', secret: undefined })
}

async function postBarely(clientOf) {
  const receivers = await startReceivers(0)
  const all = receivers.expect(deliveriesTo(0))
  const clients = receivers.urls.map(clientOf)
  const bodies = Array.from({ length: eventsCount }, (_, n) => bodyOf(n))
  const startedAt = performance.now()
  const posted = Promise.all(
    clients.flatMap(({ post }, place) => {
      const due = bodies.filter((_, n) => n % kinds === place % kinds)
      return Array.from({ length: atOnce }, () => keepPosting(post, due))
    }),
  )
  await within(limitMs, 'the bare loop', Promise.all([all, posted]))
  const seconds = (performance.now() - startedAt) / 1000
  for (const { close } of clients) await close()
  await receivers.stop()
  return { 'webhooks/s': deliveriesTo(0) / seconds }
}

async function keepPosting(post, due) {
  for (let body = due.pop(); body !== undefined; body = due.pop()) {
    const status = await post(body)
    if (status !== 204) throw new Error(`Answered ${status}`)
  }
}

function httpClient(url) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: atOnce })
  return {
    close: async () => agent.destroy(),
    post: (body) =>
      new Promise((resolve, reject) => {
        const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
        const request = http.request(url, { method: 'POST', agent, headers }, (answer) => {
          answer.resume()
          answer.on('end', () => resolve(answer.statusCode))
        })
        request.on('error', reject)
        request.end(body)
      }),
  }
}

function undiciClient(url) {
  const pool = new Pool(new URL(url).origin, { connections: atOnce })
  const headers = { 'content-type': 'application/json' }
  return {
    close: () => pool.close(),
    post: async (body) => {
      const answer = await pool.request({ method: 'POST', path: '/hook', headers, body })
      await answer.body.dump()
      return answer.statusCode
    },
  }
}

function eventsFrom(from) {
  return Array.from({ length: 1_000 }, (_, place) => ({
    type: `kind.k${(from + place) % kinds}`,
    payload: payloadOf(from + place),
  }))
}

function payloadOf(n) {
  return { order: n, total: '19.90', items: [1, 2, 3], note: 'x'.repeat(200) }
}

/** As the format `standard` has it. */
function bodyOf(n) {
  const timestamp = '2026-01-01T00:00:00.000Z'
  return JSON.stringify({ type: `kind.k${n % kinds}`, timestamp, data: payloadOf(n) })
}

/** To all endpoints but the first few. */
function deliveriesTo(leftOut) {
  const wanting = Array.from({ length: endpoints - leftOut }, (_, place) => (place + leftOut) % kinds)
  return wanting.length * (eventsCount / kinds)
}

async function startReceivers(hanging) {
  const child = fork(fileURLToPath(new URL('webhook-receivers.js', import.meta.url)), [], {
    env: { ...process.env, BENCH_SETUP: JSON.stringify({ endpoints, hanging }) },
  })
  const [{ urls }] = await once(child, 'message')
  return {
    urls,
    expect: async (expected) => {
      child.send({ expected })
      await once(child, 'message')
    },
    stop: async () => {
      child.send('stop')
      await once(child, 'exit')
    },
  }
}
