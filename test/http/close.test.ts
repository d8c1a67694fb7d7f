import { afterEach, expect, test, vi } from 'vitest'
import { useServers } from '../support/http.ts'
import { createSignal, eventually } from '../support/signal.ts'
import { Pulling } from './pulling.ts'
import { park } from './waiting.ts'

const servers = useServers('close')
afterEach(() => vi.restoreAllMocks())

test('a server that closes answers what is under way, and does not wait for the connections it came by', async () => {
  const pulling = new Pulling(await servers.open())
  const { hub, server } = pulling.server
  const id = await pulling.publish()
  await pulling.lease()
  const parked = await park(pulling, 10)
  const [asked, go] = [createSignal(), createSignal()]
  const settle = hub.pull.settle.bind(hub.pull)
  vi.spyOn(hub.pull, 'settle').mockImplementation(async (...reports) => {
    asked.give()
    await go.given
    return settle(...reports)
  })
  const busy = pulling.say('complete', id, { worker_id: 'w' })
  await asked.given
  const http = server.app.server
  const startedAt = performance.now()
  const closed = server.close()
  await eventually('it takes no more', () => !http.listening)
  await hub.pull.stop()
  for (const call of parked) expect(await call).toMatchObject({ status: 204 })
  go.give()
  expect(await busy).toMatchObject({ status: 200 })
  await closed
  // A connection that is kept alive is kept for more than a minute.
  expect(performance.now() - startedAt).toBeLessThan(20_000)
})
