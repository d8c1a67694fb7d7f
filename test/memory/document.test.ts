import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_document')
const inMemory = { name: 'm', storage: 'memory', concurrency: 1 } as const

test('a queue in memory has the same document, as it was last persisted, from every process', async () => {
  const { hub } = await hubs.open({ schema: 'shown' })
  const end = createSignal()
  hub.on('t', inMemory, () => end.given)
  await hub.start()
  for (const n of [1, 2, 3]) await hub.publish({ type: 't', payloadText: `{"n":  ${n}}`, correlationId: 'c' })
  const made = await hub.queues.checkpoint('m')
  expect(made).toMatchObject({ queue: 'm', reason: 'requested', eventCount: 0, checkpointId: null })

  const other = await hubs.open({ schema: 'shown' })
  for (const one of [hub, other.hub]) {
    const queue = await one.queues.get('m')
    expect(queue).toMatchObject({ storage: 'memory', status: 'active', depth: 3, checkpointId: null })
    expect(queue.events.map(({ event }) => event.payloadText)).toEqual([
      '{"n":  1}',
      '{"n":  2}',
      '{"n":  3}',
    ])
    expect(queue.config).toMatchObject({ maxQueueDepth: 10_000, highWatermark: 8_000, onFull: 'refuse' })
    const first = await one.queues.get('m', { limit: 2 })
    const second = await one.queues.get('m', { limit: 2, cursor: first.nextCursor as string })
    expect([...first.events, ...second.events].map(({ event }) => event.payload)).toEqual(
      [1, 2, 3].map((n) => ({ n })),
    )
  }
  await expect(other.hub.queues.checkpoint('m')).rejects.toMatchObject({ code: 'QUEUE_ELSEWHERE' })
  end.give()
  await eventually('all is settled and persisted', async () => (await other.hub.queues.get('m')).depth === 0)
  const { totals, checkpointId, events } = await other.hub.queues.get('m')
  expect({ totals, events }).toMatchObject({ totals: { processed: 3, errors: 0 }, events: [] })
  expect(checkpointId).not.toBeNull()
})

test('a queue in memory that is drained from elsewhere refuses, finishes and says so', async () => {
  const { hub } = await hubs.open({ schema: 'drained', upkeep: true })
  const end = createSignal()
  const handled: unknown[] = []
  hub.on('t', inMemory, async (event) => {
    await end.given
    handled.push(event.payload)
  })
  await hub.start()
  for (const n of [1, 2, 3]) await hub.publish({ type: 't', payload: n })
  const other = await hubs.open({ schema: 'drained' })
  await other.hub.queues.drain('m')
  await eventually('it refuses', async () => {
    const error = await hub.publish({ type: 't', payload: 0 }).then(
      () => undefined,
      (reason: { code: string }) => reason,
    )
    return error?.code === 'QUEUE_DRAINING'
  })
  expect((await other.hub.queues.get('m')).drainedAt).toBeNull()
  end.give()
  await eventually('it is drained', async () => (await other.hub.queues.get('m')).drainedAt !== null)
  expect(handled).toEqual(expect.arrayContaining([1, 2, 3]))
  await other.hub.queues.resume('m')
  await eventually('it takes events again', async () => {
    return hub.publish({ type: 't', payload: 4 }).then(
      () => true,
      () => false,
    )
  })
  await expect.poll(() => handled).toContain(4)
})

test.each([
  { events: 1, backpressure: 'none' },
  { events: 2, backpressure: 'high' },
  { events: 3, backpressure: 'full' },
])('the document of a queue in memory with $events events says $backpressure', async (given) => {
  const { hub } = await hubs.open({ schema: `pressed_${given.events}` })
  const end = createSignal()
  hub.on('t', { ...inMemory, maxQueueDepth: 3, highWatermark: 2 }, () => end.given)
  await hub.start()
  for (let n = 0; n < given.events; n++) await hub.publish({ type: 't', payload: n })
  await hub.queues.checkpoint('m')
  const [listed] = (await hub.queues.list({ order: 'desc', limit: 1 })).queues
  for (const queue of [await hub.queues.get('m'), listed]) {
    expect(queue).toMatchObject({ name: 'm', depth: given.events, backpressure: given.backpressure })
  }
  end.give()
})
