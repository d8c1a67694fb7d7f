import { once } from 'node:events'
import { afterEach, expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'

/** Clients that break their connection off with a reset. */

const servers = useServers('resets')
const uncaught: unknown[] = []
const collect = (error: unknown) => uncaught.push(error)
process.on('uncaughtException', collect)
afterEach(() => {
  uncaught.length = 0
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
