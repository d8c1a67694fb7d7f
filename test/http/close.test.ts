import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test, vi } from 'vitest'
import { startApi } from '../../src/cli/api.ts'
import { createLogger } from '../../src/observe/log.ts'
import { useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'
import { Pulling } from './pulling.ts'
import { park } from './waiting.ts'

const servers = useServers('close')
afterEach(() => vi.restoreAllMocks())

test('a server that closes answers what is under way, and does not wait for the connections it came by', async () => {
  const pulling = new Pulling(await servers.open())
  const { hub, server } = pulling.server
  const id = await pulling.publish()
  await pulling.lease()
  const parked = await park(pulling, 10)
  const [asked, go] = [createSignal(), createSignal()]
  const settle = hub.pull.settle.bind(hub.pull)
  vi.spyOn(hub.pull, 'settle').mockImplementation(async (...reports) => {
    asked.give()
    await go.given
    return settle(...reports)
  })
  const busy = pulling.say('complete', id, { worker_id: 'w' })
  await asked.given
  const http = server.app.server
  const startedAt = performance.now()
  const closed = server.close()
  await eventually('it takes no more', () => !http.listening)
  await hub.pull.stop()
  for (const call of parked) expect(await call).toMatchObject({ status: 204 })
  go.give()
  expect(await busy).toMatchObject({ status: 200 })
  await closed
  // A connection that is kept alive is kept for more than a minute.
  expect(performance.now() - startedAt).toBeLessThan(20_000)
})

/** Longer than any test: connections end because they were told to, and not because the time was up. */
const lingerMs = 60_000

test('none of forty busy keep-alive clients is reset when the server closes', async () => {
  const { url, server } = await servers.open({ lingerMs })
  const busy = createSignal()
  let answered = 0
  const clients = Array.from({ length: 40 }, () =>
    publishUntilRefused(url, () => ++answered === 400 && busy.give()),
  )
  await busy.given
  const closed = server.close()
  // To be refused a new connection is the end that is expected: nothing was sent, and a client may go elsewhere.
  expect(await Promise.all(clients)).toEqual(clients.map(() => 'ECONNREFUSED'))
  await closed
})

test('requests that came together are all answered when the server closes, and the last answer says that it was', async () => {
  const pulling = new Pulling(await servers.open({ lingerMs }))
  const { hub, server, url } = pulling.server
  const caller = await Caller.to(url)
  for (let no = 0; no < 10; no++) caller.get(`/events/subscribe?tags=a&worker_id=w${no}&wait=60`)
  await eventually('all are parked', () => hub.pull.waiting === 10)
  const closed = server.close()
  await eventually('it takes no more', () => !server.app.server.listening)
  await hub.pull.stop()
  await closed
  await eventually('the connection is closed', () => caller.isClosed)
  const answers = caller.received.split(/(?=HTTP\/1\.1 )/)
  expect(answers.map((answer) => answer.slice(9, 12))).toEqual(Array(10).fill('204'))
  expect(answers.map((answer) => /\r\nconnection: close\r\n/i.test(answer))).toEqual([
    ...Array(9).fill(false),
    true,
  ])
})

test('long polls that a stop ends are told that their connection closes', async () => {
  const { hub, keys } = await servers.open()
  const address = { host: '127.0.0.1', port: 0 }
  const api = await startApi({ hub, keys, address, log: createLogger(false) })
  const callers: Caller[] = []
  for (let no = 0; no < 10; no++) {
    const caller = await Caller.to(`http://127.0.0.1:${api.port}`)
    caller.get(`/events/subscribe?tags=a&worker_id=w${no}&wait=60`)
    callers.push(caller)
  }
  await eventually('all are parked', () => hub.pull.waiting === 10)
  await api.stop()
  await eventually('all connections are closed', () => callers.every((caller) => caller.isClosed))
  expect(callers.map((caller) => caller.statuses)).toEqual(callers.map(() => [204]))
  for (const { received } of callers) expect(received).toMatch(/\r\nconnection: close\r\n/i)
})

test('a request that was on its way on an idle connection when the server closed is answered', async () => {
  const { url, server } = await servers.open({ lingerMs })
  const caller = await Caller.to(url)
  caller.get('/livez')
  await eventually('it is answered', () => caller.statuses.length === 1)
  const closed = server.close()
  await eventually('it takes no more', () => !server.app.server.listening)
  caller.get('/livez')
  await closed
  await eventually('the connection is closed', () => caller.isClosed)
  expect(caller.statuses).toEqual([200, 200])
  expect(caller.received.match(/connection: close/gi)).toHaveLength(1)
})

test('a connection without a request does not hold up a server that closes', async () => {
  const { url, server } = await servers.open({ lingerMs: 1 })
  const caller = await Caller.to(url)
  caller.get('/livez')
  await eventually('it is answered', () => caller.statuses.length === 1)
  await server.close()
  await eventually('the connection is closed', () => caller.isClosed)
})

/** Publishes one event after another on one connection. Gives the code of the error that ends it. */
async function publishUntilRefused(url: string, answered: () => unknown): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    for (;;) {
      expect(await publish(url, agent)).toBe(202)
      answered()
    }
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code ?? error)
  } finally {
    agent.destroy()
  }
}

function publish(url: string, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/events`, { method: 'POST', agent }, (response) => {
      text(response).then(() => resolve(response.statusCode), reject)
    })
    sent.once('error', reject)
    sent.end('{"type": "a", "payload": 1}')
  })
}
