import { expect, test } from 'vitest'
import { cancel } from '../../src/engine/cancel.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

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

/** A hub whose handlers are busy with the first event of a lane, and with the first of some without a lane. */
async function openBusy() {
  const { schema, pool, db } = await hubs.takePlace()
  const { hub, drain } = await hubs.open({ schema, database: pool })
  const seen: Record<string, unknown[]> = { lane: [], loose: [] }
  const first = createSignal()
  for (const name of ['lane', 'loose']) {
    // It would hear of a cancellation after 200 s, when it renews its leases.
    hub.on(name, { name, concurrency: 1, leaseMs: 600_000 }, async ({ payload }) => {
      seen[name]?.push(payload)
      if (payload === 0) await first.given
    })
  }
  await hub.start()
  const publish = async (type: string, more: object = {}) =>
    (await hub.publishMany([0, 1, 2].map((payload) => ({ type, payload, ...more })))).map(({ id }) => id)
  const lane = await publish('lane', { orderingKey: 'k' })
  const loose = await publish('loose')
  await eventually('both are busy', () => seen.lane?.length === 1 && seen.loose?.length === 1)
  const statusOf = async (id: number | undefined) => (await hub.event(id as number))?.progress.status
  return { db, hub, drain, seen, first, lane, loose, statusOf }
}

test('what a process holds and has not begun when it is cancelled is not begun', async () => {
  const { hub, drain, seen, first, lane, loose, statusOf } = await openBusy()
  const cancelled = [lane[1], loose[1]] as number[]
  for (const id of cancelled) expect(await statusOf(id)).toBe('PENDING')
  expect(await hub.cancel(cancelled)).toMatchObject(cancelled.map((eventId) => ({ eventId, told: true })))
  // Without a lane it ends as soon as the process hears of it, and the process hears of all at once.
  await expect.poll(() => statusOf(loose[1])).toBe('CANCELLED')
  expect(seen).toEqual({ lane: [0], loose: [0] })
  first.give()
  await drain()
  expect(seen).toEqual({ lane: [0, 2], loose: [0, 2] })
  for (const id of cancelled) {
    expect(await statusOf(id)).toBe('CANCELLED')
    expect((await hub.event(id))?.deliveries).toMatchObject([{ attempts: 0, failures: 0 }])
  }
})

test('what a process holds and has not begun when it is cancelled is not begun, also if no notification comes through', async () => {
  const { db, drain, seen, first, loose, statusOf } = await openBusy()
  const request = { eventIds: [loose[1] as number], subscription: null, reason: 'test' }
  expect(await cancel(db, request)).toMatchObject([{ told: true }])
  await expect.poll(() => statusOf(loose[1])).toBe('CANCELLED')
  first.give()
  await drain()
  expect(seen.loose).toEqual([0, 2])
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
