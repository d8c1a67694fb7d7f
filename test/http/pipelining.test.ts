import { afterEach, expect, test, vi } from 'vitest'
import { PosthornError } from '../../src/errors.ts'
import { createLogger } from '../../src/observe/log.ts'
import { useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'
import { Pulling } from './pulling.ts'

/** Many requests on one connection, none of which waits for the answer to the one before. */

const servers = useServers('pipelining')
const poll = (no: number) => `/events/subscribe?tags=a&worker_id=w${no}&wait=60`
const callers: Caller[] = []
afterEach(() => {
  for (const caller of callers.splice(0)) caller.hangUp()
  vi.restoreAllMocks()
})

async function connect(url: string): Promise<Caller> {
  const caller = await Caller.to(url)
  callers.push(caller)
  return caller
}

test('thousands of long polls on one connection: a hundred wait, the rest is thrown away, and nothing is left behind', async () => {
  const lines: string[] = []
  const log = createLogger('info', { write: (line) => void lines.push(line) })
  const pulling = new Pulling(await servers.open({ log }))
  const { hub, url } = pulling.server
  const lease = vi.spyOn(hub.pull, 'lease')
  const caller = await connect(url)
  for (let no = 0; no < 3_000; no++) caller.get(poll(no))
  await eventually('a hundred wait', () => hub.pull.waiting === 100)
  caller.hangUp()
  await eventually('nobody waits any more', () => hub.pull.waiting === 0)
  expect(lease).toHaveBeenCalledTimes(100)
  const id = await pulling.publish()
  // A poll that is on its way out may still be given it, and then hands it back.
  const got: object[] = []
  await eventually('it is leased', async () => {
    const { status, json } = await pulling.subscribe({ worker_id: 'patient' })
    if (status === 200) got.push(json)
    return status === 200
  })
  expect(got).toMatchObject([{ id, retry_count: 0 }])
  expect(lines).toEqual([])
})

function publishRequest(payload: number): string {
  const body = JSON.stringify({ title: 'x', tags: 'a', payload })
  return `POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

test('a request too many on one connection is refused after the answers to the publishes before it, not instead of them', async () => {
  const { url, call } = await servers.open()
  const caller = await connect(url)
  caller.send(Array.from({ length: 150 }, (_, no) => publishRequest(no)).join(''))
  await eventually('the connection is closed', () => caller.isClosed)
  expect(caller.statuses).toEqual([...Array(100).fill(201), 429])
  const [head = '', body = ''] = caller.received.split('HTTP/1.1 429').at(-1)?.split('\r\n\r\n') ?? []
  expect(head).toMatch(/\r\nconnection: close\r\n/)
  expect(head).toMatch(/\r\nretry-after: 1\r\n/)
  expect(JSON.parse(body)).toMatchObject({ code: 'pipeline_full', requests_max: 100 })
  expect((await call('GET', '/events?tags=a')).json.total).toBe(100)
})

const chunked = 'Host: localhost\r\nTransfer-Encoding: '
test.each([
  ['is no HTTP', 'garbage\r\n\r\n'],
  ['has an unknown coding', `POST /events HTTP/1.1\r\n${chunked}gzip, chunked\r\n\r\n0\r\n\r\n`],
  ['has a broken body', `POST /events HTTP/1.1\r\n${chunked}chunked\r\n\r\nno length\r\n`],
  ['asks for a proxy', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'],
])('a request that %s does not take the answer of the publish before it', async (_, broken) => {
  const { url, call } = await servers.open()
  const caller = await connect(url)
  caller.send(publishRequest(1) + broken)
  await eventually('the connection is closed', () => caller.isClosed)
  expect(caller.statuses).toEqual([201, 400])
  expect((await call('GET', '/events?tags=a')).json.total).toBe(1)
})

test('a hundred requests on one connection are all answered, and so are those after them', async () => {
  const { url } = await servers.open()
  const caller = await connect(url)
  for (const answers of [100, 200]) {
    for (let no = 0; no < 100; no++) caller.get('/livez')
    await eventually(`${answers} answers came`, () => caller.statuses.length === answers)
  }
  expect(caller.statuses).toEqual(Array(200).fill(200))
  expect(caller.isClosed).toBe(false)
})

test('a poll that the database has no time for is one line in the log, without a stack', async () => {
  const lines: string[] = []
  const log = createLogger('info', { write: (line) => void lines.push(line) })
  const pulling = new Pulling(await servers.open({ log }))
  const cause = new Error('timeout exceeded when trying to connect')
  const refusal = new PosthornError('DATABASE_UNAVAILABLE', { reason: cause.message }, { cause })
  vi.spyOn(pulling.server.hub.pull, 'lease').mockRejectedValue(refusal)
  expect(await pulling.subscribe({ wait: 60 })).toMatchObject({ status: 503 })
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { level: 40, msg: 'Request failed', code: 'database_unavailable', reason: refusal.message },
  ])
  expect(lines.join()).not.toMatch(/stack|\n +at /)
})
