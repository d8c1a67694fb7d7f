import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Caller } from './caller.ts'

/** Answers that fit into the buffers of the kernel: for the server they are sent, whether anybody reads them or not. */

const servers = useServers('unread')
const subscribe = '/events/subscribe?tags=a&worker_id=w&lease=600'

/** Leases by hand. Gives the client, and the server's side of its connection, once the answer is sent. */
async function lease({ server, url }: TestServer, isListening: boolean) {
  const caller = await Caller.to(url)
  caller.listens(isListening)
  const asked = once(server.app.server, 'request') as Promise<[IncomingMessage, ServerResponse]>
  caller.get(subscribe)
  const [{ socket }, response] = await asked
  if (!response.closed) await once(response, 'close')
  const closed = createSignal()
  socket.once('close', closed.give)
  return { caller, closed: closed.given }
}

test('clients that read nothing of their answer and close a while later do not bury the event', async () => {
  const server = await servers.open()
  const payload = 'x'.repeat(300_000)
  const { id } = await server.hub.publish({ title: 'x', tags: ['a'], maxRetries: 3, payload })
  for (let client = 0; client < 4; client++) {
    const { caller } = await lease(server, false)
    // The server has done other things since it has sent the answer.
    expect((await server.call('GET', `/events/${id}`)).json).toMatchObject({ status: 'PROCESSING' })
    caller.hangUp()
    await eventually('the event waits again', async () => {
      const { json } = await server.call('GET', `/events/${id}`)
      return json.status === 'PENDING' && json.retry_count === 0
    })
  }
})

test('a client that has sent another request since keeps its lease when its connection is reset', async () => {
  const server = await servers.open()
  const { id } = await server.hub.publish({ title: 'x', tags: ['a'], payload: 1 })
  const { caller, closed } = await lease(server, true)
  caller.get('/livez')
  await eventually('both are answered', () => caller.statuses.length === 2)
  caller.reset()
  await closed
  expect(await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })).toMatchObject({
    status: 200,
  })
})
