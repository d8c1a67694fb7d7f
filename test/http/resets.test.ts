import { once } from 'node:events'
import { afterEach, expect, test, vi } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'

/** Clients that break their connection off with a reset. */

const servers = useServers('resets')
const adminKey = 'the key that starts a container'
const withKey = { authorization: `Bearer ${adminKey}` }
const uncaught: unknown[] = []
const collect = (error: unknown) => uncaught.push(error)
process.on('uncaughtException', collect)
afterEach(() => {
  uncaught.length = 0
  vi.restoreAllMocks()
})

const withoutConnections = ({ server }: TestServer) =>
  eventually('the server has no connections', async () => {
    const http = server.app.server
    return (await new Promise<number>((tell) => http.getConnections((_, count) => tell(count)))) === 0
  })

const refused = {
  CONNECT: ['connect', 'CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n'],
  'CONNECT behind another request': [
    'connect',
    'GET /livez HTTP/1.1\r\nHost: x\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n',
  ],
  'an upgrade': [
    'request',
    'GET /livez HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
  ],
  'no HTTP at all': ['clientError', 'nonsense\r\n\r\n'],
} as const

test.each(Object.entries(refused))(
  'a client that sends %s and resets its connection does not kill the process',
  async (_, [event, text]) => {
    const server = await servers.open()
    const http = server.server.app.server
    for (let round = 0; round < 50; round++) {
      const caller = await Caller.to(server.url)
      // Half of the clients wait until the server has read their request.
      const seen = round % 2 === 0 ? once(http, event) : undefined
      caller.send(text)
      await seen
      caller.reset()
    }
    await withoutConnections(server)
    expect(uncaught).toEqual([])
    expect(await server.call('GET', '/livez')).toMatchObject({ status: 200 })
  },
)

test.each([0, 60])(
  'a client that resets its connection while its key is looked up costs an event nothing, with a wait of %i s',
  async (wait) => {
    const server = await servers.open({ adminKey })
    const { hub, keys, url } = server
    const { id } = await hub.publish({ title: 'x', tags: ['a'], payload: 1 })
    const [asked, looked] = [createSignal(), createSignal()]
    const check = keys.check.bind(keys)
    // The first use of a key reads the database, so it takes a while.
    vi.spyOn(keys, 'check').mockImplementationOnce(async (authorization) => {
      asked.give()
      await looked.given
      return check(authorization)
    })
    const handled = createSignal()
    const lease = hub.pull.lease.bind(hub.pull)
    vi.spyOn(hub.pull, 'lease').mockImplementationOnce((request) => lease(request).finally(handled.give))
    const caller = await Caller.to(url)
    const path = `/events/subscribe?tags=a&worker_id=gone&lease=600&wait=${wait}`
    caller.send(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${adminKey}\r\n\r\n`)
    await asked.given
    caller.reset()
    await withoutConnections(server)
    looked.give()
    await handled.given
    await eventually('the event waits again', async () => {
      const { json } = await server.call('GET', `/events/${id}`, undefined, withKey)
      return json.status === 'PENDING' && json.retry_count === 0
    })
  },
)
