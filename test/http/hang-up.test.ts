import { afterEach, expect, test, vi } from 'vitest'
import { useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'
import { hangUpAsGiven, listenToAnswers, until } from './hanging-up.ts'
import { Pulling } from './pulling.ts'
import { listenToStatements, park } from './waiting.ts'

/** Clients that are gone before they have what was leased for them. */

const servers = useServers('hangup')
const open = async () => new Pulling(await servers.open())
afterEach(() => vi.restoreAllMocks())

test('whoever hangs up while it waits leaves nothing behind, and the next event goes to the others', async () => {
  const pulling = await open()
  const { hub, url } = pulling.server
  const caller = await Caller.to(url)
  caller.get('/events/subscribe?tags=a&worker_id=gone&wait=60')
  await eventually('it is parked', () => hub.pull.waiting === 1)
  caller.hangUp()
  await eventually('it has left', () => hub.pull.waiting === 0)
  const [call] = await park(pulling, 1)
  const id = await pulling.publish()
  expect(await call).toMatchObject({ status: 200, json: { id, attempt: 1, retry_count: 0 } })
})

test('one that is woken and gone at once hands on what it was woken for', async () => {
  const pulling = await open()
  const { hub } = pulling.server
  const gone = new AbortController()
  const common = {
    subscription: 'work',
    tags: ['a'],
    limit: 1,
    leaseMs: null,
    waitMs: 60_000,
    suspects: true,
  }
  const request = { ...common, workerId: 'gone', begins: 'granted', signal: gone.signal } as const
  const first = hub.pull.lease(request)
  await eventually('it is parked', () => hub.pull.waiting === 1)
  const [call] = await park(pulling, 1)
  const published = hub.pull.published.bind(hub.pull)
  // In the very moment in which it is woken.
  vi.spyOn(hub.pull, 'published').mockImplementation((arrivals) => {
    published(arrivals)
    gone.abort()
  })
  const statements = listenToStatements()
  // It is looked every second anyway; this must not be left to that.
  await until(() => statements.count('peek') === 1)
  const id = await pulling.publish()
  expect(await call).toMatchObject({ status: 200, json: { id, attempt: 1 } })
  expect(await first).toMatchObject({ runs: [] })
  expect(statements.count('peek')).toBe(1)
})

test('fifty that hang up as they are given something: nothing is stuck, nothing is counted', async () => {
  // Four times as many are in hang-up.long.test.ts.
  await hangUpAsGiven(await open(), 50)
})

test('whoever has closed its connection before the answer is written has not got it', async () => {
  const pulling = await open()
  const { hub, url } = pulling.server
  for (let round = 0; round < 20; round++) {
    const caller = await Caller.to(url)
    caller.get(`/events/subscribe?tags=a&worker_id=gone-${round}&wait=60&lease=600`)
    await until(() => hub.pull.waiting === 1)
    const closed = createSignal()
    listenToAnswers((url) => {
      if (!url.includes(`gone-${round}&`)) return
      // The server does not know it yet: its event loop has not looked.
      caller.hangUp()
      closed.give()
    })
    const { id } = await hub.publish({ title: 'x', tags: ['a'], payload: round })
    await closed.given
    const lease = await pulling.lease('patient', { wait: 20 })
    expect(lease).toMatchObject({ id, attempt: 1, retry_count: 0 })
    vi.restoreAllMocks()
  }
})

test('whoever has read its answer and then closes has got it', async () => {
  const pulling = await open()
  for (const keeping of ['keep-alive', 'close']) {
    const id = await pulling.publish()
    const caller = await Caller.to(pulling.server.url)
    const path = '/events/subscribe?tags=a&worker_id=w&lease=600'
    caller.send(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: ${keeping}\r\n\r\n`)
    await until(() => caller.received.includes(`"id":${id},`) && caller.received.endsWith('}'))
    caller.hangUp()
    // By then the server knows.
    expect(await pulling.subscribe({ wait: 1 })).toMatchObject({ status: 204 })
    expect(await pulling.say('complete', id, { worker_id: 'w' })).toMatchObject({ status: 200 })
  }
})

test('whoever hangs up in the middle of a large answer costs none of its events a failure', async () => {
  const pulling = await open()
  // More than the buffers of both sockets hold, so that the server is still writing.
  const ids = await pulling.publishMany(18, { max_retries: 3, payload: 'x'.repeat(900_000) })
  for (let client = 0; client < 3; client++) {
    const caller = await Caller.to(pulling.server.url)
    caller.get(`/events/subscribe?tags=a&worker_id=hasty-${client}&limit=1000&lease=600`)
    await until(() => caller.received !== '')
    caller.hangUp()
    await eventually(
      'all of them wait again',
      async () => (await pulling.server.call('GET', '/events?status=PENDING')).json.total === 18,
    )
  }
  const lease = await pulling.lease('patient')
  expect(lease).toMatchObject({ id: ids[0], attempt: 1, retry_count: 0 })
})

test('a client that ends its side first and hangs up in the middle of a large answer costs none of its events a failure', async () => {
  const pulling = await open()
  // More than the buffers of both sockets hold, so that the server is still writing.
  const ids = await pulling.publishMany(18, { max_retries: 3, payload: 'x'.repeat(900_000) })
  const caller = await Caller.to(pulling.server.url)
  const ended = createSignal()
  pulling.server.server.app.server.once('request', ({ socket }) => socket.once('end', ended.give))
  caller.get('/events/subscribe?tags=a&worker_id=hasty&limit=1000&lease=600')
  await until(() => caller.received !== '')
  caller.listens(false)
  caller.endWriting()
  await ended.given
  caller.hangUp()
  await eventually(
    'all of them wait again',
    async () => (await pulling.server.call('GET', '/events?status=PENDING')).json.total === 18,
  )
  const lease = await pulling.lease('patient')
  expect(lease).toMatchObject({ id: ids[0], attempt: 1, retry_count: 0 })
})

test('a client that ends its side and goes without having read its whole answer costs its event no failure', async () => {
  const pulling = await open()
  const id = await pulling.publish({ max_retries: 3, payload: 'x'.repeat(900_000) })
  const { server } = pulling.server.server.app
  const [sent, ended] = [createSignal(), createSignal()]
  server.once('request', ({ socket }, response) => {
    response.once('close', sent.give)
    socket.once('end', ended.give)
  })
  const caller = await Caller.to(pulling.server.url)
  caller.get('/events/subscribe?tags=a&worker_id=hasty&lease=600')
  await until(() => caller.received !== '')
  caller.listens(false)
  // All of it is in the buffers of the kernel, where most of it stays.
  await sent.given
  caller.endWriting()
  await ended.given
  caller.hangUp()
  const lease = await pulling.lease('patient', { wait: 20 })
  expect(lease).toMatchObject({ id, attempt: 1, retry_count: 0 })
})

test('a client that has read its answer and ends its side has got it, and its connection is closed', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  const caller = await Caller.to(pulling.server.url)
  caller.get('/events/subscribe?tags=a&worker_id=brief&lease=600')
  await eventually('the answer is there', () => caller.statuses.length === 1)
  caller.endWriting()
  await eventually('the connection is closed', () => caller.isClosed)
  expect(await pulling.say('complete', id, { worker_id: 'brief' })).toMatchObject({ status: 200 })
})

test('whoever hangs up while its key is looked at is not waited for', async () => {
  const pulling = await open()
  const { hub, url, keys, server } = pulling.server
  const [asked, looked] = [createSignal(), createSignal()]
  const check = keys.check.bind(keys)
  vi.spyOn(keys, 'check').mockImplementationOnce(async (authorization) => {
    asked.give()
    await looked.given
    return check(authorization)
  })
  const caller = await Caller.to(url)
  caller.get('/events/subscribe?tags=a&worker_id=gone&wait=60')
  await asked.given
  const http = server.app.server
  const connections = () => new Promise<number>((tell) => http.getConnections((_, count) => tell(count)))
  caller.hangUp()
  await eventually('the server knows', async () => (await connections()) === 0)
  looked.give()
  const id = await pulling.publish()
  expect(await pulling.lease('patient', { wait: 5 })).toMatchObject({ id, attempt: 1 })
  expect(hub.pull.waiting).toBe(0)
})

test('calls that came together on one connection leave together', async () => {
  const pulling = await open()
  const { hub, url } = pulling.server
  const caller = await Caller.to(url)
  for (let no = 0; no < 20; no++) caller.get(`/events/subscribe?tags=a&worker_id=w${no}&wait=60`)
  await eventually('all are parked', () => hub.pull.waiting === 20)
  caller.hangUp()
  await eventually('all have left', () => hub.pull.waiting === 0)
  const id = await pulling.publish()
  expect(await pulling.lease()).toMatchObject({ id, attempt: 1 })
})
