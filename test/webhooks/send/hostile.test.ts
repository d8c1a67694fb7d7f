import { connect, type Socket } from 'node:net'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Sent } from '../../../src/webhooks/send/sender.ts'
import { errorClassOf, flood, httpReceiver, localSender, post, rawReceiver } from './receiver.ts'

const ok = 'HTTP/1.1 200 OK\r\n'
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`
const rssGrowthMax = 50_000_000

/** Several at once and again: growth that adds up shows. */
async function bombard(answer: (socket: Socket) => void): Promise<{ sent: Sent[]; rssGrowth: number }> {
  const { url } = await rawReceiver(answer)
  const sender = localSender()
  await post(sender, url)
  const before = process.memoryUsage.rss()
  const sent: Sent[] = []
  for (let round = 0; round < 4; round++) {
    sent.push(...(await Promise.all(Array.from({ length: 5 }, () => post(sender, url)))))
  }
  return { sent, rssGrowth: process.memoryUsage.rss() - before }
}

describe('an answer without measure', () => {
  test.each([
    ['1 GB', `${ok}content-length: 1000000000\r\n\r\n`, Buffer.alloc(65_536, 'a')],
    ['endless chunks', chunked, `1000\r\n${'a'.repeat(4096)}\r\n`],
    ['no end at all', `${ok}\r\n`, Buffer.alloc(65_536, 'a')],
    ['a gzip bomb', `${ok}content-encoding: gzip\r\n\r\n`, gzipSync(Buffer.alloc(10_000_000))],
  ])('%s: 64 KB are read, 16 KB kept', async (_, start, more) => {
    const { sent, rssGrowth } = await bombard((socket) => flood(socket, start, more))
    expect(sent.map(errorClassOf)).toEqual(Array(20).fill('answered 200'))
    for (const { response } of sent) {
      expect(response).toMatchObject({ bytes: 65_536 })
      expect(response?.body).toHaveLength(16_384)
    }
    expect(rssGrowth).toBeLessThan(rssGrowthMax)
  })

  test.each([
    ['1 MB of one header', `${ok}x-long: `, 'a'],
    ['100,000 headers', ok, 'x-one-of-many: 1\r\n'],
    ['headers without content', ok, 'a:\r\n'],
    ['an endless status', 'HTTP/1.1 200 ', 'a'],
    ['endless empty lines', '', '\r\n'],
    ['a flood of 103', '', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'],
    ['a flood of 100', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
  ])('%s: protocol', async (_, start, more) => {
    const { sent, rssGrowth } = await bombard((socket) => flood(socket, start, more))
    expect(sent.map(errorClassOf)).toEqual(Array(20).fill('protocol'))
    expect(rssGrowth).toBeLessThan(rssGrowthMax)
  })

  test('endless chunk extensions and trailers are cut', async () => {
    const extension = await bombard((socket) => flood(socket, `${chunked}1;`, 'a'))
    expect(extension.sent.map(errorClassOf)).toEqual(Array(20).fill('answered 200'))
    const trailers = await bombard((socket) => flood(socket, `${chunked}0\r\n`, 'x-trailer: 1\r\n'))
    expect(trailers.sent.map(errorClassOf)).toEqual(Array(20).fill('answered 200'))
  })

  test('a thousand encodings are not undone', async () => {
    const { url } = await httpReceiver((_, response) =>
      response.writeHead(200, { 'content-encoding': Array(1000).fill('gzip').join(', ') }).end('plain'),
    )
    const { response } = await post(localSender(), url)
    expect(String(response?.body)).toBe('plain')
  })
})

describe('an answer that does not fit HTTP', () => {
  test.each([
    ['no status', 'HTTP/1.1 abc OK\r\n\r\n'],
    ['the status 000', 'HTTP/1.1 000 Nothing\r\ncontent-length: 0\r\n\r\n'],
    ['the status 099', 'HTTP/1.1 099 Almost\r\ncontent-length: 0\r\n\r\n'],
    ['the status 1000, which is no 100', 'HTTP/1.1 1000 X\r\ncontent-length: 0\r\n\r\n'],
    ['the status 100X', 'HTTP/1.1 100X\r\n\r\n'],
    ['a bad version', 'HTTP/9.9 200 OK\r\n\r\n'],
    ['HTTP/0.9', '<html>hello</html>'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['two content-lengths', `${ok}content-length: 2\r\ncontent-length: 3\r\n\r\nabc`],
    ['a negative length', `${ok}content-length: -1\r\n\r\n`],
    ['a space before the colon', `${ok}x-a : 1\r\n\r\n`],
    ['a header without a colon', `${ok}nonsense\r\n\r\n`],
    ['an upgrade nobody asked for', 'HTTP/1.1 101 OK\r\nconnection: upgrade\r\nupgrade: tcp\r\n\r\n'],
    ['bytes of zero', Buffer.alloc(100)],
  ])('%s: protocol', async (_, text) => {
    const { url } = await rawReceiver((socket) => socket.end(text))
    expect(errorClassOf(await post(localSender(), url))).toBe('protocol')
  })

  test('names that objects have are headers like any other', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty']
    const { url } = await rawReceiver((socket) =>
      socket.end(`${ok}${names.map((name) => `${name}: x\r\n`).join('')}content-length: 0\r\n\r\n`),
    )
    const { response } = await post(localSender(), url)
    expect(Object.values(response?.headers ?? {})).toEqual(['x', 'x', 'x', 'x', '0'])
  })

  test('a few hints before the answer are fine', async () => {
    const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'
    const { url } = await rawReceiver((socket) =>
      socket.write(`${hint.repeat(3)}${ok}content-length: 0\r\n\r\n`),
    )
    expect(errorClassOf(await post(localSender(), url))).toBe('answered 200')
  })

  const go = 'HTTP/1.1 100 Continue\r\n\r\n'
  const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'
  const empty = `${ok}content-length: 0\r\n\r\n`
  test.each([
    ['at once with the answer', [`${go}${empty}`]],
    ['with headers of its own', [`HTTP/1.1 100 Continue\r\nx-a: 1\r\n\r\n${empty}`]],
    ['before the answer', [go, empty]],
    ['byte by byte', [...`${go}${empty}`]],
    ['among hints', [`${hint}${go}${hint}${go}`, empty]],
    ['without a reason', [`HTTP/1.1 100\r\n\r\n${empty}`]],
    ['by HTTP/1.0', [`HTTP/1.0 100 Go\r\n\r\n`, empty]],
  ])('a 100 Continue that nobody asked for is no failure: %s', async (_, parts) => {
    const { url, sockets } = await rawReceiver(async (socket) => {
      for (const part of parts) await new Promise<unknown>((resolve) => socket.write(part, resolve))
    })
    const sender = localSender()
    // Twice: the connection is kept.
    for (let n = 0; n < 2; n++) {
      const sent = await post(sender, url)
      expect([errorClassOf(sent), sent.response?.bytes]).toEqual(['answered 200', 0])
    }
    expect(sockets).toHaveLength(1)
  })

  test('a 100 Continue and then nothing is a lost answer, and is not sent again at once', async () => {
    let requests = 0
    const { url } = await rawReceiver((socket) => {
      requests++
      if (requests === 1) socket.write(empty)
      else socket.end(go)
    })
    const sender = localSender()
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
    await setImmediate()
    expect(errorClassOf(await post(sender, url))).toBe('reset')
    expect(requests).toBe(2)
  })

  test('204 with a body does not spoil the next answer', async () => {
    const { url } = await rawReceiver((socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\nextra'))
    const sender = localSender()
    expect(errorClassOf(await post(sender, url))).toBe('answered 204')
    await setImmediate()
    expect(errorClassOf(await post(sender, url))).toBe('answered 204')
  })
})

describe('once the head of an answer is there', () => {
  test.each([
    [
      'a reset',
      (socket: Socket) => socket.write(`${ok}content-length: 9\r\n\r\nabc`, () => socket.resetAndDestroy()),
    ],
    ['an early close', (socket: Socket) => socket.end(`${ok}content-length: 9\r\n\r\nabc`)],
    ['a malformed chunk', (socket: Socket) => socket.write(`${chunked}3\r\nabc\r\nzz\r\n`)],
    ['a length that lies', (socket: Socket) => socket.end(`${ok}content-length: 1\r\n\r\nabc`)],
  ])('%s changes nothing', async (_, answer) => {
    const { url } = await rawReceiver(answer)
    const { result, response } = await post(localSender(), url)
    expect(result).toMatchObject({ kind: 'answered', status: 200 })
    expect(response?.body.length).toBeLessThanOrEqual(3)
  })

  test('a body that stalls or drips is waited for two seconds', async () => {
    const stalling = await rawReceiver((socket) => socket.write(`${ok}content-length: 9\r\n\r\nabc`))
    const dripping = await rawReceiver((socket) => {
      socket.write(chunked)
      const drip = setInterval(() => socket.write('1\r\na\r\n'), 50)
      socket.on('close', () => clearInterval(drip))
    })
    const failing = await rawReceiver((socket) =>
      socket.write('HTTP/1.1 500 Oops\r\ncontent-length: 9\r\n\r\n'),
    )
    const sender = localSender()
    const sent = await Promise.all([stalling, dripping, failing].map(({ url }) => post(sender, url)))
    expect(sent.map(errorClassOf)).toEqual(['answered 200', 'answered 200', 'answered 500'])
    for (const { timings } of sent) expect(timings.totalMs).toBeGreaterThan(1900)
    expect(String(sent[0]?.response?.body)).toBe('abc')
    expect(errorClassOf(await post(sender, stalling.url, { timeoutMs: 1_000 }))).toBe('answered 200')
    expect(stalling.sockets).toHaveLength(2)
  })

  test('an answer that comes before all was read does not leave half a request behind', async () => {
    const { url, sockets } = await rawReceiver((socket) => {
      socket.pause()
      socket.write(`HTTP/1.1 413 Too large\r\ncontent-length: 0\r\n\r\n`)
    })
    const sender = localSender()
    const body = Buffer.alloc(16_000_000)
    expect(errorClassOf(await post(sender, url, { body }))).toBe('answered 413')
    expect(errorClassOf(await post(sender, url, { body }))).toBe('answered 413')
    expect(sockets).toHaveLength(2)
  })
})

test('a peer that lets connections hang is a connect_timeout', async () => {
  const url = `http://127.0.0.1:${await fullBacklog()}/`
  const [short, late] = await Promise.all([
    post(localSender({ connectMs: 300 }), url),
    post(localSender(), url, { timeoutMs: 300 }),
  ])
  expect([errorClassOf(short), errorClassOf(late)]).toEqual(['connect_timeout', 'connect_timeout'])
  expect(short.timings.connectMs).toBeGreaterThan(250)
})

/** A listener whose thread sleeps: the kernel takes a few connections for it, and lets the others wait. */
async function fullBacklog(): Promise<number> {
  const sleeper = new Worker(
    `const server = require('node:net').createServer()
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       require('node:worker_threads').parentPort.postMessage(server.address().port)
       setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 0)
     })`,
    { eval: true },
  )
  onTestFinished(async () => {
    await sleeper.terminate()
  })
  const port = await new Promise<number>((resolve) => sleeper.once('message', resolve))
  for (let hanging = 0; hanging < 3; ) hanging = (await isTaken(port)) ? 0 : hanging + 1
  return port
}

async function isTaken(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  await setTimeout(100)
  // On a busy machine the timer may come before the news that has long been there.
  await setImmediate()
  return !socket.connecting
}
