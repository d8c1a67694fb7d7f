import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { eventually } from '../support/signal.ts'

const hubs = useHubs('memory')

test('an event that only a memory queue is owed passes through memory, and the answer says so', async () => {
  const { hub, drain } = await hubs.open({ schema: 'passes' })
  const seen: unknown[] = []
  hub.on('t', { name: 'm', storage: 'memory' }, ({ id, payload }) => void seen.push([id, payload]))
  await hub.start()
  const one = await hub.publish({ type: 't', payload: { n: 1 } })
  const many = await hub.publishMany([2, 3].map((n) => ({ type: 't', payload: { n } })))
  await drain()
  expect(one).toMatchObject({ replayed: false, deliveries: 1, durability: 'process', backpressure: [] })
  expect(many.map(({ durability }) => durability)).toEqual(['process', 'process'])
  expect(seen).toEqual([
    [one.id, { n: 1 }],
    [many[0]?.id, { n: 2 }],
    [many[1]?.id, { n: 3 }],
  ])
  expect((await hub.listEvents()).events).toEqual([])
})

test('what was persisted is loaded after a restart, and what the checkpoint covers does not run again', async () => {
  const first = await hubs.open({ schema: 'restart' })
  const ran: number[] = []
  first.hub.on('t', { name: 'm', storage: 'memory', concurrency: 1 }, ({ payload }, attempt) => {
    ran.push(payload as number)
    if (payload === 2) attempt.snooze(3_600_000)
  })
  await first.hub.start()
  await first.hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload })))
  await eventually('all ran', () => ran.length === 3)
  await first.hub.stop()

  const second = await hubs.open({ schema: 'restart' })
  const again: unknown[] = []
  second.hub.on(
    't',
    { name: 'm', storage: 'memory' },
    ({ payload }, { number }) => void again.push([payload, number]),
  )
  await second.hub.start()
  await second.drain()
  expect(again).toEqual([])
  await second.clock.advance(3_600_000)
  await second.drain()
  expect(again).toEqual([[2, 2]])
})
