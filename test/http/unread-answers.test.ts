import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'

/** Answers that fit into the buffers of the kernel: for the server they are sent, whether anybody reads them or not. */

const servers = useServers('unread')
const subscribe = '/events/subscribe?tags=a&worker_id=w&lease=600'

interface Manner {
  readonly isListening: boolean
  /** Whether the connection is to be kept after the answer. */
  readonly connection?: 'keep-alive' | 'close'
}

/** Leases by hand. Gives the client, and the server's side of its connection, once the kernel has the answer. */
async function lease({ server, url }: TestServer, { isListening, connection = 'keep-alive' }: Manner) {
  const caller = await Caller.to(url)
  caller.listens(isListening)
  const asked = once(server.app.server, 'request') as Promise<[IncomingMessage, ServerResponse]>
  caller.send(`GET ${subscribe} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: ${connection}\r\n\r\n`)
  const [{ socket }, response] = await asked
  if (!response.closed) await once(response, 'close')
  const closed = createSignal()
  socket.once('close', closed.give)
  return { caller, closed: closed.given }
}

test.each([
  ['keep-alive', 300_000],
  ['close', 300_000],
  ['close', 900_000],
] as const)(
  'clients (%s) that read nothing of %i bytes and close a while later do not bury the event',
  async (connection, length) => {
    const server = await servers.open()
    const payload = 'x'.repeat(length)
    const { id } = await server.hub.publish({ title: 'x', tags: ['a'], maxRetries: 3, payload })
    for (let client = 0; client < 4; client++) {
      const { caller } = await lease(server, { isListening: false, connection })
      // The server has done other things since it has sent the answer.
      expect((await server.call('GET', `/events/${id}`)).json).toMatchObject({ status: 'PROCESSING' })
      caller.hangUp()
      await eventually('the event waits again', async () => {
        const { json } = await server.call('GET', `/events/${id}`)
        return json.status === 'PENDING' && json.retry_count === 0
      })
    }
  },
)

test('a client that has sent another request since keeps its lease when its connection is reset', async () => {
  const server = await servers.open()
  const { id } = await server.hub.publish({ title: 'x', tags: ['a'], payload: 1 })
  const { caller, closed } = await lease(server, { isListening: true })
  caller.get('/livez')
  await eventually('both are answered', () => caller.statuses.length === 2)
  caller.reset()
  await closed
  expect(await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })).toMatchObject({
    status: 200,
  })
})

test.each([
  ['begun', '/start', {}],
  ['renewed for longer', '/heartbeat', { lease: 900 }],
  ['renewed for no longer', '/heartbeat', { lease: 1 }],
] as const)(
  'a lease that was %s over another connection is kept when the first one is reset',
  async (_, path, body) => {
    const server = await servers.open()
    const { id } = await server.hub.publish({ title: 'x', tags: ['a'], payload: 1 })
    const { caller, closed } = await lease(server, { isListening: true })
    await eventually('the answer is read', () => caller.statuses.length === 1)
    expect(await server.call('POST', `/events/${id}${path}`, { worker_id: 'w', ...body })).toMatchObject({
      status: 200,
    })
    caller.reset()
    await closed
    // A hand-back, if there were one, would be over: nobody else can lease the event.
    expect(await server.call('GET', '/events/subscribe?tags=a&worker_id=v&wait=1')).toMatchObject({
      status: 204,
    })
    expect(await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })).toMatchObject({
      status: 200,
    })
  },
)

test('a client that asks for its connection to be closed and reads all of it keeps its lease', async () => {
  const server = await servers.open()
  const { id } = await server.hub.publish({ title: 'x', tags: ['a'], payload: 'x'.repeat(900_000) })
  const { caller, closed } = await lease(server, { isListening: true, connection: 'close' })
  // The client closes only when the server has.
  await eventually('the connection is closed', () => caller.isClosed)
  await closed
  expect(caller.received.length).toBeGreaterThan(900_000)
  expect(await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })).toMatchObject({
    status: 200,
  })
})

test('a client that neither reads its answer nor closes is let go, and keeps its lease', async () => {
  const server = await servers.open()
  const { id } = await server.hub.publish({ title: 'x', tags: ['a'], payload: 1 })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { closed } = await lease(server, { isListening: false, connection: 'close' })
  vi.advanceTimersByTime(10_000)
  vi.useRealTimers()
  await closed
  expect(await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })).toMatchObject({
    status: 200,
  })
})
