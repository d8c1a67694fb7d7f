import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'
import { Pulling } from './pulling.ts'

/** Clients that are slow, or wrong, on purpose: they get nothing, and nobody else gets less. */

const servers = useServers('hostile')
const timeouts = { headersMs: 1_500, requestMs: 3_000, stalledMs: 70_000 }
const callers: Caller[] = []
const dripping: NodeJS.Timeout[] = []
afterEach(() => {
  for (const timer of dripping.splice(0)) clearInterval(timer)
  for (const caller of callers.splice(0)) caller.hangUp()
})

async function connect(pulling: Pulling, count: number): Promise<Caller[]> {
  const made = await Promise.all(Array.from({ length: count }, () => Caller.to(pulling.server.url)))
  callers.push(...made)
  return made
}

const head = (line: string, ...headers: string[]) => [line, 'Host: localhost', ...headers, ''].join('\r\n')
const publish = 'POST /events HTTP/1.1'
/** A client that does not send its body before it is told to. */
const expecting = (line: string, bytes: number) =>
  `${head(line, `Content-Length: ${bytes}`, 'Content-Type: application/json', 'Expect: 100-continue')}\r\n`

/** What each sends first, and then again and again; all of these must be cut. */
const slow = {
  'nothing at all': ['', ''],
  'a request line, a letter at a time': ['GET /', 'x'],
  'headers, a letter at a time': [head('GET /livez HTTP/1.1', 'X-Slow: '), 'x'],
  'headers without end': [head('GET /livez HTTP/1.1'), 'X-More: 1\r\n'],
  'a body, a letter at a time': [`${head(publish, 'Content-Length: 100000')}\r\n{`, ' '],
  'chunks without end': [`${head(publish, 'Transfer-Encoding: chunked')}\r\n`, '1\r\n \r\n'],
  'an expectation, and then nothing': [
    `${head(publish, 'Content-Length: 9', 'Expect: 100-continue')}\r\n`,
    '',
  ],
  'half of a request after a whole one': [`${head('GET /livez HTTP/1.1')}\r\nGET /li`, ''],
} as const

test('three hundred that drip are cut, and a healthy client does not notice them', async () => {
  const pulling = new Pulling(await servers.open({ timeouts }))
  const { server } = pulling.server
  const usualMs = await slowestOfMost(pulling)
  for (const [first, again] of Object.values(slow)) {
    const some = await connect(pulling, 35)
    for (const caller of some) caller.send(first)
    if (again === '') continue
    dripping.push(
      setInterval(() => {
        for (const caller of some) caller.send(again)
      }, 250),
    )
  }
  const flooding = await connect(pulling, 20)
  for (const caller of flooding) caller.send(`${head('GET /livez HTTP/1.1')}\r\n`.repeat(50))
  expect(callers).toHaveLength(300)

  // On a machine that is busy anyway, not much more than without them.
  expect(await slowestOfMost(pulling)).toBeLessThan(Math.max(2_000, 5 * usualMs))

  const cut = callers.filter((caller) => !flooding.includes(caller))
  await eventually('all that drip are cut', () => cut.every((caller) => caller.isClosed))
  for (const caller of flooding) expect(caller.statuses).toEqual(Array.from({ length: 50 }, () => 200))
  for (const caller of cut) expect([[408], [100, 408], [200, 408]]).toContainEqual(caller.statuses)
  for (const caller of flooding) caller.hangUp()
  const http = server.app.server
  const connections = () => new Promise<number>((tell) => http.getConnections((_, count) => tell(count)))
  // Those of the healthy client are kept alive.
  await eventually('no connection is left', async () => (await connections()) <= 4)
})

/** How long the calls of a healthy client take, but for the slowest hundredth. */
async function slowestOfMost(pulling: Pulling): Promise<number> {
  const tookMs: number[] = []
  const timed = async <T>(work: Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const answer = await work
    tookMs.push(performance.now() - startedAt)
    return answer
  }
  for (let round = 0; round < 50; round++) {
    const id = await timed(pulling.publish())
    expect(await timed(pulling.lease())).toMatchObject({ id })
    expect(await timed(pulling.say('complete', id, { worker_id: 'w' }))).toMatchObject({ status: 200 })
    expect(await timed(pulling.event(id))).toMatchObject({ status: 'COMPLETED' })
  }
  expect(tookMs).toHaveLength(200)
  return tookMs.sort((a, b) => a - b)[197] as number
}

test('whoever asks and does not read is cut too', async () => {
  const pulling = new Pulling(await servers.open({ timeouts: { ...timeouts, stalledMs: 1_000 } }))
  const id = await pulling.publish({ payload: 'x'.repeat(1_000_000) })
  const [deaf] = (await connect(pulling, 1)) as [Caller]
  deaf.listens(false)
  deaf.send(`${head(`GET /events/${id} HTTP/1.1`)}\r\n`.repeat(30))
  const http = pulling.server.server.app.server
  const connections = () => new Promise<number>((tell) => http.getConnections((_, count) => tell(count)))
  expect(await connections()).toBe(2)
  // That of the healthy client stays, unless the machine is so busy that it is idle for long as well.
  await eventually('it is cut', async () => (await connections()) <= 1)
  await eventually('others are served', async () => {
    const event = await pulling.event(id).catch(() => undefined)
    return event?.id === id
  })
})

const smuggled = JSON.stringify({ title: 'smuggled', tags: 'a', payload: 1 })
const inside = `${head(publish, 'Content-Type: application/json', `Content-Length: ${smuggled.length}`)}\r\n${smuggled}`
const chunked = `0\r\n\r\n${inside}`
const withBody = (body: string, ...headers: string[]) =>
  `${head(publish, 'Content-Type: application/json', ...headers)}\r\n${body}`

/** Requests that two servers in a row could read in two ways, with a publish in what one of them takes for a body. */
const ambiguous: Record<string, string> = {
  'Content-Length and Transfer-Encoding': withBody(
    chunked,
    'Content-Length: 4',
    'Transfer-Encoding: chunked',
  ),
  'Transfer-Encoding and Content-Length': withBody(
    chunked,
    'Transfer-Encoding: chunked',
    'Content-Length: 4',
  ),
  'two lengths': withBody(inside, 'Content-Length: 0', `Content-Length: ${inside.length}`),
  'the same length twice': withBody(inside, 'Content-Length: 0', 'Content-Length: 0'),
  'a list of lengths': withBody(inside, 'Content-Length: 0, 0'),
  'a length with a sign': withBody(inside, 'Content-Length: +0'),
  'a negative length': withBody(inside, 'Content-Length: -1'),
  'a length in hexadecimal': withBody(inside, 'Content-Length: 0x0'),
  'a length with a space in it': withBody(inside, 'Content-Length: 0 0'),
  'an empty length': withBody(inside, 'Content-Length: '),
  'a length beyond all numbers': withBody(inside, 'Content-Length: 99999999999999999999'),
  'an encoding that is not known': withBody(chunked, 'Transfer-Encoding: xchunked'),
  'chunked, and then something else': withBody(chunked, 'Transfer-Encoding: chunked, identity'),
  'another encoding before chunked': withBody(chunked, 'Transfer-Encoding: gzip, chunked'),
  'two encodings': withBody(chunked, 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity'),
  'a space before the colon': withBody(chunked, 'Transfer-Encoding : chunked', 'Content-Length: 4'),
  'a tab before the colon': withBody(chunked, 'Content-Length\t: 4'),
  'a folded header': withBody(chunked, 'X-Folded: a\r\n b', 'Content-Length: 0'),
  'a header without a name': withBody(inside, ': 1'),
  'a header without a colon': withBody(inside, 'Content-Length'),
  'NUL in a header': withBody(inside, 'X-Nul: a\0b'),
  'a bare CR in a header': withBody(inside, 'X-Cr: a\rContent-Length: 4'),
  'bare LFs': withBody(inside, 'Content-Length: 0').replaceAll('\r\n', '\n'),
  'a space before the colon of Host': `GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n`,
  'a chunk without a size': withBody(`\r\n${chunked}`, 'Transfer-Encoding: chunked'),
  'a chunk of negative size': withBody(`-1\r\n${chunked}`, 'Transfer-Encoding: chunked'),
  'a chunk with 0x before its size': withBody(`0x0\r\n\r\n${inside}`, 'Transfer-Encoding: chunked'),
  'a chunk beyond all numbers': withBody(`fffffffffffffffff\r\n${chunked}`, 'Transfer-Encoding: chunked'),
  'a chunk that is longer than it says': withBody(`1\r\nxy\r\n${chunked}`, 'Transfer-Encoding: chunked'),
  'HTTP 0.9': 'GET /livez\r\n\r\n',
  'a version that there is not': 'GET /livez HTTP/3.7\r\nHost: localhost\r\n\r\n',
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  TLS: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'a method that there is not': 'STEAL /events HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'a space in the path': 'GET /live z HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'a request to be a proxy': 'CONNECT example.org:80 HTTP/1.1\r\nHost: example.org\r\n\r\n',
}

test('what could be read in two ways is 400 and the end of the connection', async () => {
  const pulling = new Pulling(await servers.open({ timeouts }))
  const seen: [string, number[], boolean][] = []
  for (const [name, request] of Object.entries(ambiguous)) {
    const [caller] = (await connect(pulling, 1)) as [Caller]
    caller.send(request)
    await eventually(`${name} is cut`, () => caller.isClosed)
    seen.push([name, caller.statuses, caller.received.includes('"code":"bad_request"')])
  }
  expect(seen).toEqual(Object.keys(ambiguous).map((name) => [name, [400], true]))
  const { json } = await pulling.server.call('GET', '/events')
  expect(json.total).toBe(0)
})

test('requests that are odd and can be read in one way only are answered', async () => {
  const pulling = new Pulling(await servers.open({ timeouts }))
  const odd: [string, string, number[]][] = [
    ['no Host', 'GET /livez HTTP/1.1\r\n\r\n', [400]],
    ['two Hosts', 'GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n', [400]],
    ['fifty at once', `${head('GET /livez HTTP/1.1')}\r\n`.repeat(50), Array.from({ length: 50 }, () => 200)],
    ['an expectation', `${inside.replace('\r\n', '\r\nExpect: 100-continue\r\n')}`, [100, 201]],
    ['an expectation of too much', expecting(publish, 99_999_999), [413]],
    ['an expectation at a wrong path', expecting('POST /nowhere HTTP/1.1', 2), [404]],
    ['another expectation', `${inside.replace('\r\n', '\r\nExpect: the unexpected\r\n')}`, [201]],
    ['empty lines first', `\r\n\r\n${head('GET /livez HTTP/1.1')}\r\n`, [200]],
    ['chunks with extensions', chunks(smuggled, ';a=b;c="d"'), [201]],
    ['a body of no length', `${head(publish, 'Content-Type: application/json')}\r\n`, [400]],
    ['a body nobody wants', `${head('POST /livez HTTP/1.1', 'Content-Length: 3')}\r\n{} `, [405]],
    ['a GET with a body', `${head('GET /livez HTTP/1.1', 'Content-Length: 3')}\r\nabc`, [200]],
  ]
  for (const [name, request, statuses] of odd) {
    const [caller] = (await connect(pulling, 1)) as [Caller]
    caller.send(request)
    await eventually(
      `${name} is answered: ${caller.received}`,
      () => caller.statuses.length === statuses.length,
    )
    expect(caller.statuses, name).toEqual(statuses)
    // And the connection is good for another one.
    if (caller.isClosed) continue
    caller.send(`${head('GET /livez HTTP/1.1')}\r\n`)
    await eventually(`${name} and another`, () => caller.statuses.length > statuses.length || caller.isClosed)
    expect(caller.statuses.at(-1), name).toBeLessThan(500)
  }
})

function chunks(body: string, extension: string): string {
  const start = head(publish, 'Content-Type: application/json', 'Transfer-Encoding: chunked')
  const parts = [body.slice(0, 7), body.slice(7)].map(
    (part) => `${part.length.toString(16)}${extension}\r\n${part}\r\n`,
  )
  return `${start}\r\n${parts.join('')}0\r\nX-Trailer: 1\r\n\r\n`
}

test('bodies that are more than there is room for are refused, until others are answered', async () => {
  const pulling = new Pulling(await servers.open({ bodyBytesMax: 200_000 }))
  const { call, server } = pulling.server
  const [holder] = await connect(pulling, 1)
  const asked = once(server.app.server, 'request')
  holder?.send(`${head(publish, 'Content-Type: application/json', 'Content-Length: 150000')}\r\n`)
  holder?.send(' '.repeat(140_000))
  const large = { title: 't', tags: 'a', payload: 'x'.repeat(100_000) }
  const [{ socket }] = (await asked) as [IncomingMessage]
  await eventually('its body has come', () => socket.bytesRead > 140_000)
  // What has come is in the hands of the route a few turns later; before that, it could be the one that is refused.
  await delay(300)
  const { status, json, headers } = await call('POST', '/events', large)
  expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1'])
  expect((await call('POST', '/events', { ...large, payload: 1 })).status).toBe(201)
  holder?.hangUp()
  await eventually('there is room again', async () => (await call('POST', '/events', large)).status === 201)
  for (let round = 0; round < 5; round++) expect((await call('POST', '/events', large)).status).toBe(201)
})
