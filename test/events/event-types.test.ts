import { describe, expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('event_types')
const hourMs = 3_600_000

test('a type is defined, changed, listed and deleted', async () => {
  const { hub } = await hubs.open()
  expect(await hub.types()).toEqual([])
  await hub.defineType('b', { maxAgeMs: 315_360_000_000, requireRoute: true })
  await hub.defineType('a', { maxAgeMs: 1, keepMs: 0 })
  expect(await hub.defineType('b', { requireRoute: false })).toEqual({
    type: 'b',
    maxAgeMs: null,
    requireRoute: false,
    keepMs: null,
  })
  expect(await hub.types()).toEqual([
    { type: 'a', maxAgeMs: 1, requireRoute: null, keepMs: 0 },
    { type: 'b', maxAgeMs: null, requireRoute: false, keepMs: null },
  ])
  await hub.deleteType('a')
  expect((await hub.types()).map(({ type }) => type)).toEqual(['b'])
  await expect(hub.deleteType('a')).rejects.toMatchObject({ code: 'NOT_FOUND' })
})

describe('what cannot be defined', () => {
  test.each([
    ['type', '', {}],
    ['type', 'order.*', {}],
    ['type', 'x'.repeat(101), {}],
    ['type', undefined, {}],
    ['maxAgeMs', 't', { maxAgeMs: 0 }],
    ['maxAgeMs', 't', { maxAgeMs: 1.5 }],
    ['maxAgeMs', 't', { maxAgeMs: '5' }],
    ['requireRoute', 't', { requireRoute: 'yes' }],
    ['keepMs', 't', { keepMs: -1 }],
    ['keepMs', 't', { keepMs: 0.5 }],
    ['keepMs', 't', { keepMs: 'delete' }],
  ])('%s: %j, %j', async (option, type, options) => {
    const { hub } = await hubs.open()
    await expect(hub.defineType(type as string, options as object)).rejects.toMatchObject({
      code: 'BAD_OPTION',
      details: { option },
    })
    expect(await hub.types()).toEqual([])
  })
})

describe('publishing a defined type', () => {
  test('it expires after its age, counted from when it is due', async () => {
    const { hub } = await hubs.open()
    await hub.defineType('t', { maxAgeMs: hourMs })
    const runAt = new Date(Date.now() + 24 * hourMs)
    const past = new Date(Date.now() - 24 * hourMs)
    const now = await hub.publish({ type: 't', payload: 1 })
    const late = await hub.publish({ type: 't', payload: 1, runAt })
    const overdue = await hub.publish({ type: 't', payload: 1, runAt: past })
    const own = await hub.publish({ type: 't', payload: 1, expiresAt: runAt })
    const expiry = async (id: number) => (await hub.event(id))?.event.expiresAt?.getTime()
    expect(await expiry(now.id)).toBeCloseTo(now.createdAt.getTime() + hourMs, -1)
    expect(await expiry(late.id)).toBe(runAt.getTime() + hourMs)
    expect(await expiry(overdue.id)).toBeCloseTo(overdue.createdAt.getTime() + hourMs, -1)
    expect(await expiry(own.id)).toBe(runAt.getTime())
  })

  test('a delayed event outlives its wait', async () => {
    const { hub, clock, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { name: 'n' }, (event) => void seen.push(event.payload))
    await hub.start()
    await hub.defineType('t', { maxAgeMs: hourMs })
    await hub.publish({ type: 't', payload: 1, runAt: new Date(Date.now() + 2 * hourMs) })
    await clock.advance(2 * hourMs + 1_000)
    await drain()
    expect(seen).toEqual([1])
  })

  test('it is buried when nobody wants it, unless the publisher says otherwise', async () => {
    const { hub } = await hubs.open()
    await hub.defineType('t', { requireRoute: true })
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await hub.publish({ type: 't', payload: 1, requireRoute: false })
    await hub.deleteType('t')
    await hub.publish({ type: 't', payload: 1 })
    const { deadLetters } = await hub.deadLetters()
    expect(deadLetters).toMatchObject([{ eventId: id, reason: 'no_handler' }])
  })
})
