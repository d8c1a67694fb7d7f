import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { AddressPolicy } from '../../../src/webhooks/send/address-policy.ts'
import { Connector } from '../../../src/webhooks/send/connector.ts'
import { Resolver } from '../../../src/webhooks/send/resolver.ts'
import { dnsServer, type Family, type Reply } from './dns-server.ts'
import {
  canary,
  errorClassOf,
  httpReceiver,
  listening,
  localSender,
  post,
  type Receiver,
} from './receiver.ts'

/** 127.0.0.2 stands for a public host, and 127.0.0.1 for what nobody outside should reach. */
const policy = new AddressPolicy(['127.0.0.2'])

interface Neighbours {
  readonly open: Receiver
  readonly closed: Receiver
  readonly closed6: Receiver
  readonly port: number
}

/** All on one port, since the port comes from the URL. Somebody may have it on one of the addresses: then on another. */
async function publicAndPrivate(triesLeft = 20): Promise<Neighbours> {
  const open = await listening(
    createServer((request, response) => {
      request.resume()
      response.setHeader('x-host', request.headers.host ?? '')
      response.writeHead(200, { connection: 'close' }).end('public')
    }),
    '127.0.0.2',
  )
  const { port } = open
  try {
    const closed = await listening(createTcpServer(), '127.0.0.1', port)
    const closed6 = await listening(createTcpServer(), '::1', port)
    return { open, closed, closed6, port }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || triesLeft === 0) throw error
    return publicAndPrivate(triesLeft - 1)
  }
}

async function senderAnswered(reply: (name: string, family: Family) => Reply) {
  const { server } = await dnsServer(reply)
  return localSender({ policy, dns: { servers: [server], lookup: async () => [], budgetMs: 20_000 } })
}

describe('names that lie', () => {
  test('a name that turns private after the first request is not followed', async () => {
    const { open, closed, port } = await publicAndPrivate()
    const answers = ['127.0.0.2', '127.0.0.1']
    const sender = await senderAnswered((_, family) =>
      family === 'A' ? { addresses: [answers.shift() ?? '127.0.0.1'], ttl: 0 } : 'none',
    )
    const first = await post(sender, `http://rebind.example:${port}/`)
    expect(errorClassOf(first)).toBe('answered 200')
    expect(first.response?.headers['x-host']).toBe(`rebind.example:${port}`)
    expect(errorClassOf(await post(sender, `http://rebind.example:${port}/`))).toBe('blocked')
    expect([open.sockets.length, closed.sockets.length]).toEqual([1, 0])
  })

  test.each([
    ['a public A and a private AAAA', { A: ['127.0.0.2'], AAAA: ['::1'] }],
    [
      'a public A and private ones',
      { A: ['127.0.0.1', '127.0.0.2', '10.0.0.1'], AAAA: ['::ffff:127.0.0.1'] },
    ],
  ])('%s: only the public one is dialled', async (_, { A, AAAA }) => {
    const { open, closed, closed6, port } = await publicAndPrivate()
    const sender = await senderAnswered((_, family) => ({ addresses: family === 'A' ? A : AAAA }))
    expect(errorClassOf(await post(sender, `http://mixed.example:${port}/`))).toBe('answered 200')
    expect([open.sockets, closed.sockets, closed6.sockets].map(({ length }) => length)).toEqual([1, 0, 0])
  })

  test('if the public one does not answer, the private one is not tried', async () => {
    const closed = await canary()
    const sender = await senderAnswered((_, family) =>
      family === 'A' ? { addresses: ['127.0.0.2', '127.0.0.1'] } : 'none',
    )
    expect(errorClassOf(await post(sender, `http://mixed.example:${closed.port}/`))).toBe('refused')
    expect(closed.sockets).toHaveLength(0)
  })

  test('a name with several public addresses is tried at the next', async () => {
    const { port } = await httpReceiver((_, response) => response.end('ok'))
    const { server } = await dnsServer((_, family) =>
      family === 'A' ? { addresses: ['127.0.0.3', '127.0.0.1'] } : 'none',
    )
    const sender = localSender({ dns: { servers: [server] } })
    expect(errorClassOf(await post(sender, `http://two.example:${port}/`))).toBe('answered 200')
  })

  test.each([
    ['NXDOMAIN', 'dns'],
    ['none', 'dns'],
    ['SERVFAIL', 'dns'],
  ] as const)('%s fails as %s', async (reply, errorClass) => {
    const sent = await post(await senderAnswered(() => reply), 'http://nowhere.example/')
    expect(errorClassOf(sent)).toBe(errorClass)
    expect(sent.timings.dnsMs).toBeGreaterThan(0)
  })

  test('a name server that stays silent is cut by the deadline', async () => {
    const sent = await post(await senderAnswered(() => 'silence'), 'http://slow.example/', { timeoutMs: 200 })
    expect(errorClassOf(sent)).toBe('dns')
  })
})

describe('forbidden addresses are not dialled', () => {
  test.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '①②⑦.⓪.⓪.①',
    '0',
    'localhost',
    'localhost.',
    'a.localhost',
    '[::]',
    '[::1]',
    '[::ffff:7f00:1]',
    '[::7f00:1]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
  ])('%s', async (host) => {
    const { sockets, port } = await canary()
    const canary6 = await listening(createTcpServer(), '::1', port)
    for (const allowed of [new AddressPolicy(), policy]) {
      const sender = localSender({ policy: allowed })
      expect(errorClassOf(await post(sender, `http://${host}:${port}/`))).toBe('blocked')
      expect(errorClassOf(await post(sender, `https://${host}:${port}/`))).toBe('blocked')
    }
    expect([sockets.length, canary6.sockets.length]).toEqual([0, 0])
  })

  test('a socket that ends elsewhere than was judged gets not a byte', async () => {
    const received = vi.fn()
    const { port, sockets } = await listening(createTcpServer((socket) => socket.on('data', received)))
    const judged = new AddressPolicy(['127.0.0.1'])
    const deceived = { judge: () => 'forbidden' as const, hasAllowances: false }
    const connector = new Connector({
      policy: deceived as unknown as AddressPolicy,
      resolver: new Resolver({ policy: judged }),
    })
    for (const scheme of ['http', 'https']) {
      const url = new URL(`${scheme}://127.0.0.1:${port}/`)
      const connecting = connector.connect(url, { phase: 'dns' }, new AbortController().signal)
      await expect(connecting).rejects.toMatchObject({ errorClass: 'blocked' })
    }
    await vi.waitFor(() => expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true]), 60_000)
    expect(received).not.toHaveBeenCalled()
  })
})
