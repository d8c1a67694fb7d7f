import { expect, test } from 'vitest'
import { useHubs } from './support/hub.ts'

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
