/**
 * The load that the webhook hub was first drawn for: 200 events/s, 2.5 webhooks each, for five minutes (BENCH_SECONDS) over
 * the API of one `posthorn serve`. 99 of 100 are picked up within 100 ms, and nothing is lost.
 */
import { fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { verdict } from './rounds.js'
import { givenServers } from './server.js'
import { formatNumber, quantile } from './table.js'

const { database } = givenServers()
const seconds = Number(process.env.BENCH_SECONDS ?? 300)
const perSecond = 200
const endpoints = 5 // the first kind of event is wanted by two of them, the second by three
const key = randomBytes(24).toString('hex')

const receivers = fork(fileURLToPath(new URL('load-receiver.js', import.meta.url)), [], {
  env: { ...process.env, BENCH_SETUP: JSON.stringify({ endpoints }) },
})
const [{ urls }] = await once(receivers, 'message')
const hub = await serve()
try {
  for (const [place, url] of urls.entries()) {
    await ask('POST', '/subscribers', { name: `load-${place}`, url, event_types: [`load.k${place % 2}`] })
  }
  const published = await publish()
  const expected = published.reduce((sum, n) => sum + (n % 2 === 0 ? 3 : 2), 0)
  const { count, repeats, latenciesMs } = await untilAll(expected)
  await report({ published: published.length, expected, count, repeats, latenciesMs })
} finally {
  hub.kill('SIGTERM')
  receivers.send('stop')
  await once(hub, 'exit')
}

/** At a steady rate, whether or not the ones before are answered. Returns the numbers that were acknowledged. */
async function publish() {
  const acknowledged = []
  const underWay = []
  const startedAt = performance.now()
  for (let n = 0; n < seconds * perSecond; n++) {
    const waitMs = startedAt + (n * 1000) / perSecond - performance.now()
    if (waitMs > 1) await delay(waitMs)
    const event = { type: `load.k${n % 2}`, payload: { n, publishedAt: Date.now(), note: 'x'.repeat(200) } }
    underWay.push(ask('POST', '/events', event).then(() => acknowledged.push(n)))
  }
  await Promise.all(underWay)
  return acknowledged
}

async function untilAll(expected) {
  const deadline = performance.now() + 60_000
  for (;;) {
    receivers.send('count')
    const [answer] = await once(receivers, 'message')
    if (answer.count >= expected || performance.now() > deadline) return answer
    await delay(200)
  }
}

async function report({ published, expected, count, repeats, latenciesMs }) {
  const pickup = await pickupMs()
  const quantiles = (values) =>
    [0.5, 0.99, 1].map((share) => formatNumber(quantile(values, share))).join(', ')
  console.log(
    `\n${published} events in ${seconds} s, ${count} of ${expected} webhooks arrived, ${repeats} repeated`,
  )
  console.log(
    `pick-up p50, p99, max: ${quantiles(pickup)} ms; published → arrived: ${quantiles(latenciesMs)} ms`,
  )
  if (count !== expected) throw new Error(`${expected - count} webhooks were lost`)
  verdict({ title: 'Load', what: 'p99 pick-up / 100 ms', ratios: [quantile(pickup, 0.99) / 100], atMost: 1 })
}

/** From the publish's commit to the lease, by the clock of the database. */
async function pickupMs() {
  const client = new pg.Client(database)
  await client.connect()
  const { rows } = await client.query(
    `select extract(epoch from a.leased_at - e.created_at)::float8 * 1000 as ms
    from posthorn.audit a join posthorn.events e on e.id = a.event_id
    where a.attempt = 1 and a.settlement = 'completed'`,
  )
  await client.end()
  return rows.map(({ ms }) => Math.max(0, ms))
}

async function serve() {
  const env = {
    ...process.env,
    ...{ PORT: '0', LOG_LEVEL: 'warn', POSTHORN_ADMIN_KEY: key, POSTHORN_ALLOW_CIDRS: '127.0.0.1' },
    POSTHORN_SECRET_KEY: randomBytes(32).toString('base64'),
    DATABASE_URL: urlOf(database),
  }
  const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
  const child = spawn(process.execPath, [main, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.setEncoding('utf8')
  for await (const line of child.stdout) {
    const [, url] = /listens on (http:\/\/\S+)/.exec(line) ?? []
    if (url === undefined) continue
    child.url = url
    break
  }
  return child
}

function urlOf({ connectionString, host, port, user, database: name }) {
  return connectionString ?? `postgres://${user}@/${name}?host=${encodeURIComponent(host)}&port=${port}`
}

async function ask(method, path, body) {
  const answer = await fetch(hub.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return JSON.parse(text)
}
