import { expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import { eventually } from '../support/signal.ts'
import { FakeHub } from './fake-hub.ts'
import { useFakeServers } from './fake-server.ts'

const serve = useFakeServers()

test('stopping does not wait for a server that says nothing', async () => {
  const hub = new FakeHub()
  const { url } = await serve(hub.respond)
  const client = new PosthornClient({ url, retries: 0 })
  const worker = client.worker({ tags: 'a', log: false, concurrency: 1 }, () => new Promise(() => undefined))
  hub.publish(...[1, 2].map((id) => ({ id, payload: 'null' })))
  await worker.start()
  await eventually('both are leased', () => hub.waiting === 0)
  hub.before = () => new Promise<undefined>(() => undefined)
  const began = performance.now()
  await worker.stop({ graceMs: 100 })
  expect(performance.now() - began).toBeLessThan(25_000)
})
