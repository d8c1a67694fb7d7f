import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('testing_drain')

test.each(['database', 'memory'] as const)(
  'drain does not wait for what a paused handler is owed: %s',
  async (storage) => {
    const { hub, drain } = await hubs.open()
    const handled: unknown[] = []
    hub.on('t', { name: 'paused', storage }, ({ payload }) => void handled.push(payload))
    await hub.start()
    await hub.queues.pause('paused')
    const isPaused = () => hub.memory.views.every(({ subscription }) => subscription.status === 'paused')
    await eventually('it is known here', isPaused)
    await hub.publish({ type: 't', payload: 1 })
    await hub.publish({ type: 't', payload: 2, orderingKey: 'k' })
    await drain(1_000)
    expect(handled).toEqual([])
    await hub.queues.resume('paused')
    await eventually('it has gone on', () => handled.length === 2)
  },
)

test('drain waits for an attempt that began before its handler was paused', async () => {
  const { hub, drain } = await hubs.open()
  const begun = createSignal()
  const mayEnd = createSignal()
  let hasEnded = false
  hub.on('t', { name: 'paused' }, async () => {
    begun.give()
    await mayEnd.given
    hasEnded = true
  })
  await hub.start()
  await hub.publish({ type: 't', payload: 1 })
  await begun.given
  await hub.queues.pause('paused')
  const drained = drain(60_000)
  mayEnd.give()
  await drained
  expect(hasEnded).toBe(true)
})
