import { once } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { errorClassOf, httpReceiver, localSender, post, rawReceiver } from './receiver.ts'

describe('connections', () => {
  test('are kept and used again', async () => {
    const { url, sockets } = await httpReceiver((_, response) => response.end('ok'))
    const sender = localSender()
    await post(sender, url)
    const { timings } = await post(sender, url)
    for (let i = 0; i < 5; i++) await post(sender, url)
    expect(sockets).toHaveLength(1)
    expect(Object.keys(timings).sort()).toEqual(['firstByteMs', 'totalMs'])
  })

  test('are not shared between subscribers', async () => {
    const { url, sockets } = await httpReceiver((_, response) => response.end('ok'))
    const sender = localSender()
    await post(sender, url, { poolKey: 'sub_1' })
    await post(sender, url, { poolKey: 'sub_2' })
    expect(sockets).toHaveLength(2)
  })

  test('are as many as allowed, and the rest wait their turn', async () => {
    let atOnce = 0
    let mostAtOnce = 0
    const { url, sockets } = await httpReceiver((_, response) => {
      atOnce += 1
      mostAtOnce = Math.max(mostAtOnce, atOnce)
      setTimeout(() => {
        atOnce -= 1
        response.end('ok')
      }, 20)
    })
    const sender = localSender({ connectionsMax: 3 })
    const sent = await Promise.all(Array.from({ length: 12 }, () => post(sender, url)))
    expect(sent.map(errorClassOf)).toEqual(Array(12).fill('answered 200'))
    expect([mostAtOnce, sockets.length]).toEqual([3, 3])
  })

  test('a connection that fails makes room for those who wait', async () => {
    let requests = 0
    const { url } = await rawReceiver((socket) => {
      requests += 1
      if (requests === 1) socket.resetAndDestroy()
      else socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
    const sender = localSender({ connectionsMax: 1 })
    const sent = await Promise.all([1, 2, 3].map(() => post(sender, url)))
    expect(sent.map(errorClassOf)).toEqual(['reset', 'answered 200', 'answered 200'])
  })

  test('one that the peer resets as it is used again is opened anew, once', async () => {
    let requests = 0
    const { url, sockets } = await rawReceiver((socket) => {
      requests += 1
      if (requests === 2) socket.resetAndDestroy()
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    })
    const sender = localSender()
    await post(sender, url)
    const again = await post(sender, url)
    expect(errorClassOf(again)).toBe('answered 200')
    expect(again.timings.connectMs).toBeGreaterThan(0)
    expect([requests, sockets.length]).toEqual([3, 2])
  })

  test('a reset of the fresh one too is a failure', async () => {
    let requests = 0
    const { url, sockets } = await rawReceiver((socket) => {
      requests += 1
      if (requests > 1) socket.resetAndDestroy()
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    })
    const sender = localSender()
    await post(sender, url)
    expect(errorClassOf(await post(sender, url))).toBe('reset')
    expect([requests, sockets.length]).toEqual([3, 2])
  })

  test('a reset after the first byte of an answer is not tried again', async () => {
    let requests = 0
    const { url } = await rawReceiver((socket) => {
      requests += 1
      if (requests === 1) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
      else socket.end('HTTP/1.1 20')
    })
    const sender = localSender()
    await post(sender, url)
    expect(errorClassOf(await post(sender, url))).toBe('reset')
    expect(requests).toBe(2)
  })

  test('one that the peer has closed meanwhile is forgotten', async () => {
    const { url, sockets } = await httpReceiver((_, response) => response.end('ok'))
    const sender = localSender()
    await post(sender, url)
    sockets[0]?.destroy()
    await new Promise((resolve) => setImmediate(resolve))
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
    expect(sockets).toHaveLength(2)
  })

  test('a peer that says close is taken at its word', async () => {
    const { url, sockets } = await httpReceiver((_, response) =>
      response.writeHead(200, { connection: 'close' }).end('ok'),
    )
    const sender = localSender()
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
    expect(sockets).toHaveLength(2)
  })

  test('that are idle for longer than the peer keeps them are closed by us', async () => {
    const { url, sockets } = await rawReceiver((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nkeep-alive: timeout=3\r\ncontent-length: 0\r\n\r\n'),
    )
    const sender = localSender()
    await Promise.all(['sub_1', 'sub_2', 'sub_2'].map((poolKey) => post(sender, url, { poolKey })))
    await vi.waitFor(
      () => expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true, true]),
      60_000,
    )
    expect(errorClassOf(await post(sender, url))).toBe('answered 200')
    expect(sockets).toHaveLength(4)
  })

  test('closing the sender closes those that are kept', async () => {
    const { url, sockets } = await httpReceiver((_, response) => response.end('ok'))
    const sender = localSender()
    await post(sender, url)
    const closed = once(sockets[0] as NonNullable<(typeof sockets)[0]>, 'close')
    await sender.close()
    await closed
  })
})
