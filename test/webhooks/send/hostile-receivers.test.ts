import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { useServers } from '../../support/http.ts'
import { flood, rawReceiver } from './receiver.ts'
import { openDispatching, openInbox, publish, settledTimes, subscribe } from './setup.ts'

const servers = useServers('dispatcher_hostile')

const ok = 'HTTP/1.1 200 OK\r\n'
const rssGrowthMax = 50_000_000
const each = 6

/** What each receiver does, and what its deliveries are settled as. */
const hostile: Record<string, [answer: (socket: Socket) => void, became: string]> = {
  'endless headers': [(socket) => flood(socket, ok, 'x-more: and more\r\n'), 'protocol'],
  'one endless header': [(socket) => flood(socket, `${ok}x-long: `, 'a'), 'protocol'],
  'an endless body': [(socket) => flood(socket, `${ok}\r\n`, 'a'), '200'],
  'a body of 100 MB': [(socket) => flood(socket, `${ok}content-length: 100000000\r\n\r\n`, 'a'), '200'],
  'a gzip bomb': [(socket) => flood(socket, `${ok}content-encoding: gzip\r\n\r\n`, bomb), '200'],
  'a head byte by byte': [(socket) => drip(socket, `${ok}x-slow: ${'a'.repeat(1_000)}`), 'timeout'],
  'a body byte by byte': [(socket) => drip(socket, `${ok}content-length: 1000\r\n\r\n`, 200), '200'],
  silence: [() => undefined, 'timeout'],
}
const bomb = gzipSync(Buffer.alloc(10_000_000))

test('hostile receivers are settled in time, and neither memory nor other endpoints suffer', {
  timeout: 240_000,
}, async () => {
  const server = await openDispatching(servers)
  const places = new Map<string, number[]>()
  for (const [place, [name, [answer]]] of Object.entries(hostile).entries()) {
    const { url } = await rawReceiver(once(answer))
    await subscribe(server, url, { event_types: [`bad.${place}`], timeout_ms: 1_500 })
    places.set(name, [])
  }
  const good = await openInbox()
  await subscribe(server, good.url, { event_types: ['good'] })
  const before = process.memoryUsage.rss()
  let goodSent = 0
  for (let n = 0; n < each; n++) {
    for (const [place, ids] of [...places.values()].entries()) {
      ids.push(await publish(server, { type: `bad.${place}` }))
    }
    await publish(server, { type: 'good' })
    goodSent++
    // Each comes while the others are busy with all that was sent before.
    await good.count(goodSent)
  }
  const settled: Record<string, string[]> = {}
  for (const [name, ids] of places) {
    const first = await Promise.all(ids.map(async (id) => (await settledTimes(server, id, 1))[0]))
    settled[name] = first.map((one) => one?.errorClass ?? String(one?.statusCode))
  }
  const expected = Object.entries(hostile).map(([name, [, became]]) => [name, Array(each).fill(became)])
  expect(settled).toEqual(Object.fromEntries(expected))
  expect(process.memoryUsage.rss() - before).toBeLessThan(rssGrowthMax)
  const { rows } = await server.db.query(
    `select max(octet_length(response::text))::int as bytes from ${server.db.schema}.exchanges`,
  )
  expect(rows[0]?.bytes).toBeLessThan(120_000)
})

/** A request may come in several pieces: it is answered once. */
function once(answer: (socket: Socket) => void): (socket: Socket) => void {
  const answered = new WeakSet<Socket>()
  return (socket) => {
    if (answered.has(socket)) return
    answered.add(socket)
    answer(socket)
  }
}

/** One byte every so often, after the first ones. */
function drip(socket: Socket, text: string, first = 1): void {
  let at = first
  socket.write(text.slice(0, at))
  const timer = setInterval(() => {
    if (socket.destroyed) clearInterval(timer)
    else socket.write(text.charAt(at++) || 'a')
  }, 20)
  socket.on('close', () => clearInterval(timer))
}
