import pg from 'pg'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('alerts')
const once = { kind: 'fixed', delayMs: 1_000, failuresMax: 1 } as const

/** A hub whose operational events are collected, as `[kind, payload]`. */
async function openWatched(options: Parameters<typeof hubs.open>[0] = {}) {
  const opened = await hubs.open(options)
  const alerts: [kind: string | null, payload: unknown][] = []
  const buried: unknown[] = []
  opened.hub.on('posthorn.*', { name: 'ops' }, (event) => void alerts.push([event.type, event.payload]))
  opened.hub.events.on('buried', (burial) => void buried.push(burial))
  await opened.hub.start()
  return { ...opened, alerts, buried }
}

/** Somebody else may be letting arrivals in at this moment: then a poll finds nothing yet. */
async function pollSurely(hub: TestPosthorn['hub'], subscription: string) {
  await expect.poll(() => hub.poll({ subscription })).toBeDefined()
}

describe('a burial is alerted once', () => {
  test('by a reclaim, together with the lane that it stops', async () => {
    const { hub, clock, alerts } = await openWatched()
    await hub.subscribe('t', { name: 'p', retry: once, onExhausted: 'block' })
    const { id } = await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
    await pollSurely(hub, 'p')
    await clock.advance(61_000)
    await expect.poll(() => alerts).toHaveLength(2)
    expect(alerts).toEqual(
      expect.arrayContaining([
        [
          'posthorn.delivery.buried',
          { subscription: 'p', eventId: id, reason: 'the lease expired', heldBack: 0 },
        ],
        ['posthorn.lane.blocked', { subscription: 'p', eventId: id, orderingKey: 'k', heldBack: 0 }],
      ]),
    )
  })

  test('by a reclaim in a lane that goes on', async () => {
    const { hub, clock, alerts, drain } = await openWatched()
    await hub.subscribe('t', { name: 'p', retry: once })
    await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
    await pollSurely(hub, 'p')
    await clock.advance(61_000)
    await expect.poll(() => alerts).toHaveLength(1)
    await drain()
    expect(alerts.map(([kind]) => kind)).toEqual(['posthorn.delivery.buried'])
  })

  test('by finalize with errors, however often that is repeated', async () => {
    const { hub, alerts, buried, drain } = await openWatched()
    await hub.subscribe('t', { name: 'p', onExhausted: 'block' })
    const { id } = await hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
    await pollSurely(hub, 'p')
    await Promise.all([hub.finalize(id, ['bad']), hub.finalize(id, ['bad'])])
    await hub.finalize(id, ['bad'])
    await expect.poll(() => alerts).toHaveLength(2)
    await drain()
    expect(alerts.map(([kind]) => kind).sort()).toEqual(['posthorn.delivery.buried', 'posthorn.lane.blocked'])
    expect(buried).toEqual([{ subscription: 'p', eventId: id, reason: 'finalized with errors: bad' }])
  })

  test('by finalize, even if a listener throws', async () => {
    const { hub, alerts } = await openWatched()
    hub.events.on('buried', () => {
      throw new Error('a bad listener')
    })
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await pollSurely(hub, 'work')
    await hub.finalize(id, ['bad'])
    await expect.poll(() => alerts).toHaveLength(1)
  })

  test('by publishing what nobody wants, where a route is required', async () => {
    const { hub, alerts, buried, drain } = await openWatched()
    await hub.defineType('strict', { requireRoute: true })
    await hub.publish({ type: 'lenient', payload: 1 })
    const required = { type: 'nobody', payload: 1, requireRoute: true, idempotencyKey: 'k' }
    const first = await hub.publish(required)
    expect(await hub.publish(required)).toMatchObject({ replayed: true })
    const [second] = await hub.publishMany([{ type: 'strict', payload: 1 }])
    await expect.poll(() => alerts).toHaveLength(2)
    await drain()
    const letter = (eventId: number | undefined) => ({ subscription: null, eventId, reason: 'no_handler' })
    expect(alerts).toHaveLength(2)
    // They have no key: their order is up to the handlers that run beside each other.
    const told = [first.id, second?.id].map((id) => [
      'posthorn.delivery.buried',
      { ...letter(id), heldBack: 0 },
    ])
    expect(alerts).toEqual(expect.arrayContaining(told))
    expect(buried).toEqual([letter(first.id), letter(second?.id)])
  })

  test('by publishing what nobody wants with a payload that PostgreSQL cannot read', async () => {
    const { hub, alerts } = await openWatched()
    const [first, second] = await hub.publishMany([
      { type: 'nobody', payload: 'a\u0000b', requireRoute: true },
      { type: 'nobody', payload: 1, requireRoute: true },
    ])
    await expect.poll(() => alerts).toHaveLength(2)
    const told = alerts.map(([, payload]) => (payload as { eventId: number }).eventId)
    expect(told.sort()).toEqual([first?.id, second?.id])
  })

  test('by the hub’s own rule that every event must be wanted', async () => {
    const { hub, alerts } = await openWatched({ requireRoute: true })
    await hub.publish({ type: 'nobody', payload: 1 })
    await expect.poll(() => alerts).toHaveLength(1)
  })
})

test('every burial is logged, also when its alert is held back', async () => {
  const lines: { msg: string; alert?: string }[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const { hub, drain } = await openWatched({ log })
  hub.events.on('settled', () => {
    throw new Error('a bad listener')
  })
  await hub.subscribe('t', { name: 'p' })
  for (let n = 0; n < 12; n++) {
    const { id } = await hub.publish({ type: 't', payload: n })
    await pollSurely(hub, 'p')
    await hub.finalize(id, ['bad'])
  }
  await drain()
  expect(lines.filter((line) => line.msg === 'A delivery was buried')).toHaveLength(12)
  expect(lines.filter((line) => line.alert === 'posthorn.delivery.buried')).toHaveLength(10)
})

test('a handler’s burial is alerted even if a listener throws', async () => {
  const { hub } = await hubs.open()
  const alerts: unknown[] = []
  hub.on('posthorn.*', { name: 'ops' }, (event) => void alerts.push(event.type))
  hub.on('t', { name: 'n' }, (_, attempt) => attempt.bury('enough'))
  hub.events.on('settled', () => {
    throw new Error('a bad listener')
  })
  await hub.start()
  await hub.publish({ type: 't', payload: 1 })
  await expect.poll(() => alerts).toEqual(['posthorn.delivery.buried'])
})

test('events published in a caller’s transaction are not told', async () => {
  const { hub } = await hubs.open()
  const told: number[] = []
  hub.events.on('published', (events) => void told.push(...events.map((event) => event.id)))
  const client = new pg.Client(hubs.connection)
  await client.connect()
  await hub.publish({ type: 't', payload: 1 }, { tx: client })
  const { id } = await hub.publish({ type: 't', payload: 2 })
  await client.end()
  expect(told).toEqual([id])
})

test('an attempt that does not end is told once in the whole fleet, and its successor again', async () => {
  const options = { schema: 'overdue', overdueAfterMs: 60_000 }
  const { hub, clock, alerts, drain } = await openWatched(options)
  const { hub: second } = await hubs.open(options)
  await hub.subscribe('t', { name: 'p', leaseMs: 3_600_000 })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await pollSurely(hub, 'p')
  await clock.advance(59_000)
  await second.sweep()
  await drain()
  expect(alerts).toEqual([])
  for (let minute = 0; minute < 3; minute++) {
    await clock.advance(61_000)
    await second.sweep()
    await drain()
  }
  const payload = { subscription: 'p', eventId: id, workerId: expect.any(String), heldBack: 0 }
  await expect.poll(() => alerts).toHaveLength(1)
  expect(alerts).toEqual([['posthorn.attempt.overdue', { ...payload, pickedAt: expect.any(String) }]])
  await hub.reset(id, 'it hangs')
  await pollSurely(hub, 'p')
  await clock.advance(61_000)
  await expect.poll(() => alerts).toHaveLength(2)
})
