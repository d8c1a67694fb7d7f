import { expect, test } from 'vitest'
import { useHubs } from './support/hub.ts'
import { eventually } from './support/signal.ts'

const hubs = useHubs('cancel_hub')

test('a handler that fails right after its event was cancelled is not called again, and its lane goes on', async () => {
  const { hub, clock, drain } = await hubs.open()
  const seen: unknown[] = []
  hub.on('t', { name: 'n' }, async (event) => {
    seen.push(event.payload)
    if (event.payload !== 1) return
    expect(await hub.cancel([event.id])).toMatchObject([{ eventId: event.id, told: true }])
    throw new Error('it could not know yet')
  })
  await hub.start()
  const [first] = await hub.publishMany(
    [1, 2, 3].map((payload) => ({ type: 't', payload, orderingKey: 'k' })),
  )
  await drain()
  await clock.advance(3_600_000)
  await drain()
  expect(seen).toEqual([1, 2, 3])
  expect((await hub.event(first?.id ?? 0))?.progress.status).toBe('CANCELLED')
})

test('what is cancelled before its attempt begins counts no attempt', async () => {
  const { hub, drain } = await hubs.open()
  const seen: unknown[] = []
  /** The process hears of a cancellation when it renews its lease. */
  const leasedUntil = async (id: number) => (await hub.event(id))?.deliveries[0]?.leasedUntil?.getTime()
  hub.on('t', { name: 'n', concurrency: 1, leaseMs: 1_000 }, async (event) => {
    seen.push(event.payload)
    if (event.payload !== 1) return
    expect(await hub.cancel([event.id + 1])).toMatchObject([{ eventId: event.id + 1, told: true }])
    for (let heard = 0; heard < 2; heard++) {
      const before = await leasedUntil(event.id)
      await eventually('the lease is renewed', async () => (await leasedUntil(event.id)) !== before)
    }
  })
  await hub.start()
  const published = await hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload })))
  await drain()
  expect(seen).toEqual([1, 3])
  const cancelled = await hub.event(published[1]?.id ?? 0)
  expect(cancelled?.progress.status).toBe('CANCELLED')
  expect(cancelled?.deliveries).toMatchObject([{ attempts: 0, failures: 0 }])
})

test('an event that waits for several is cancelled for each, and each is named once', async () => {
  const { hub } = await hubs.open()
  await hub.subscribe('t', { name: 'one' })
  await hub.subscribe('t', { name: 'two' })
  const { id } = await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
  const cancelled = await hub.cancel([id, id])
  expect(cancelled.map(({ eventId, told }) => [eventId, told])).toEqual([
    [id, false],
    [id, false],
  ])
  expect(new Set(cancelled.map(({ subscription }) => subscription)).size).toBe(2)
  expect((await hub.event(id))?.progress.status).toBe('CANCELLED')
})
