import { afterEach, expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_away')
const inMemory = { name: 'm', storage: 'memory' } as const
const toEvent = (payload: unknown) => ({ type: 't', payload })
let proxy: TestProxy | undefined

afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

test('without the database a queue works on, and what it did is written when that is back', async () => {
  proxy = await startProxy(hubs.connection)
  const { hub } = await hubs.open({ schema: 'away', database: proxy.connection })
  const held = createSignal()
  const seen: unknown[] = []
  hub.on('t', { ...inMemory, concurrency: 2 }, async ({ payload }, attempt) => {
    await held.given
    seen.push(payload)
    if (payload === 7) attempt.snooze(3_600_000)
  })
  await hub.start()
  const payloads = Array.from({ length: 1_000 }, (_, n) => n)
  await hub.publishMany(payloads.map(toEvent))
  await hub.memory.persist()
  await proxy.refuse()
  await expect(hub.publish(toEvent(0))).rejects.toMatchObject({ status: 503 })
  held.give()
  await eventually('all ran', () => seen.length === 1_000)
  expect(seen).toEqual(payloads)
  await expect(hub.memory.persist()).rejects.toMatchObject({ status: 503 })
  await proxy.accept()
  await eventually('all is written', () =>
    hub.memory.persist().then(
      () => true,
      () => false,
    ),
  )
  await hub.stop()

  const second = await hubs.open({ schema: 'away' })
  const again: unknown[] = []
  second.hub.on('t', inMemory, ({ payload }) => void again.push(payload))
  await second.hub.start()
  await second.clock.advance(3_600_000)
  await second.drain()
  expect(again).toEqual([7])
})

test('a persist whose answer is lost is not forgotten: what it may have stored is removed once it is settled', async () => {
  proxy = await startProxy(hubs.connection)
  const { hub } = await hubs.open({ schema: 'unsure', database: proxy.connection })
  const held = createSignal()
  const first = createSignal()
  const ran: unknown[] = []
  hub.on('t', { ...inMemory, concurrency: 3 }, async ({ payload }) => {
    await (payload === 1 ? first : held).given
    ran.push(payload)
  })
  await hub.start()
  await hub.memory.persist()
  await hub.publishMany([1, 2, 3].map(toEvent))
  proxy.cutAt('persist_memory', 'after')
  await expect(hub.memory.persist()).rejects.toMatchObject({ code: 'COMMIT_UNKNOWN' })
  held.give()
  await eventually('two ran', () => ran.length === 2)
  await eventually('it is written', () =>
    hub.memory.persist().then(
      () => true,
      () => false,
    ),
  )
  const second = await hubs.open({ schema: 'unsure' })
  expect(second.hub.memory.views).toEqual([])
  first.give()
  await hub.stop({ graceMs: 0 })
  const again: unknown[] = []
  second.hub.on('t', inMemory, ({ payload }) => void again.push(payload))
  await second.hub.start()
  await second.drain()
  expect([...ran, ...again].sort()).toEqual([1, 2, 3])
})
