import pg from 'pg'
import { expect, test } from 'vitest'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('queue_drain')

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)

/** Not at once: whoever wrote anything on this server as the drain began must have ended, in whatever database. */
const untilDrained = ({ hub, clock }: Pick<TestPosthorn, 'hub' | 'clock'>) =>
  eventually('the queue is drained', async () => {
    await clock.advance(1_000)
    return (await hub.queues.get('orders')).drainedAt !== null
  })

test('a draining queue finishes what waits, says so, and is given what came meanwhile when it is resumed', async () => {
  const { hub, clock, drain } = await hubs.open()
  const handled: unknown[] = []
  const drained: string[] = []
  hub.on('order.created', { name: 'orders' }, (event) => void handled.push(event.payload))
  hub.events.on('drained', ({ queue }) => drained.push(queue))
  await hub.subscribe('order.*', { name: 'others' })
  await hub.start()
  await hub.queues.pause('orders')
  for (const n of numbers(1, 5)) await hub.publish({ type: 'order.created', payload: n })
  expect(handled).toEqual([])

  expect(await hub.queues.drain('orders')).toMatchObject({ status: 'draining', drainedAt: null })
  // Others want it too, so it is stored, and held for this one.
  await hub.publish({ type: 'order.created', payload: 6 })
  await expect.poll(() => handled.length).toBe(5)
  await untilDrained({ hub, clock })
  expect(await hub.queues.get('orders')).toMatchObject({ status: 'draining', depth: 1 })
  expect(drained).toEqual(['orders'])
  expect(handled).not.toContain(6)

  expect(await hub.queues.resume('orders')).toMatchObject({ status: 'active', drainedAt: null })
  await expect.poll(() => handled.length).toBe(6)
  await drain()
  expect([...handled].sort()).toEqual(numbers(1, 6))
})

test('what is owed to nobody but a queue that drains is refused', async () => {
  const { hub } = await hubs.open()
  await hub.subscribe('order.*', { name: 'orders' })
  await hub.queues.drain('orders')
  await expect(hub.publish({ type: 'order.created', payload: 1 })).rejects.toMatchObject({
    code: 'QUEUE_DRAINING',
    details: { queue: 'orders' },
  })
  await hub.publish({ type: 'other.thing', payload: 1 })
  await hub.queues.drain('work')
  await expect(hub.publish({ title: 'task', tags: 'mail', payload: 1 })).rejects.toMatchObject({
    status: 409,
  })
  expect((await hub.listEvents()).total).toBe(1)
  await hub.queues.resume('orders')
  await hub.publish({ type: 'order.created', payload: 1 })
})

test('a lane stops where the drain began, and goes on there', async () => {
  const { hub, clock } = await hubs.open()
  const handled: unknown[] = []
  hub.on('order.created', { name: 'orders' }, (event) => void handled.push(event.payload))
  await hub.subscribe('order.*', { name: 'others' })
  await hub.start()
  await hub.queues.pause('orders')
  const publish = (n: number) => hub.publish({ type: 'order.created', payload: n, orderingKey: `k${n % 3}` })
  for (const n of numbers(1, 30)) await publish(n)
  await hub.queues.drain('orders')
  for (const n of numbers(31, 60)) await publish(n)
  await expect.poll(() => handled.length).toBe(30)
  await untilDrained({ hub, clock })
  expect((await hub.queues.get('orders')).depth).toBe(30)
  expect([...handled].sort((a, b) => Number(a) - Number(b))).toEqual(numbers(1, 30))
  await hub.queues.resume('orders')
  await publish(61)
  await expect.poll(() => handled.length).toBe(61)
  for (const key of [0, 1, 2]) {
    const lane = handled.filter((n) => Number(n) % 3 === key)
    expect(lane).toEqual([...lane].sort((a, b) => Number(a) - Number(b)))
  }
})

test('a queue is not drained while somebody who was publishing has not ended', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('order.*', { name: 'orders' })
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  try {
    await client.query('begin')
    await hub.publish({ type: 'order.created', payload: 1 }, { tx: client })
    await hub.queues.drain('orders')
    await clock.advance(1_000)
    expect((await hub.queues.get('orders')).drainedAt).toBeNull()
    await client.query('commit')
    await clock.advance(1_000)
    expect(await hub.queues.get('orders')).toMatchObject({ depth: 1, drainedAt: null })
  } finally {
    await client.end()
  }
  const leased = await hub.poll({ subscription: 'orders' })
  await hub.finalize(leased?.id as number)
  await untilDrained({ hub, clock })
})

test('a retry belongs to what is drained', async () => {
  const { hub, clock } = await hubs.open()
  let tries = 0
  hub.on(
    'order.created',
    { name: 'orders', retry: { kind: 'fixed', delayMs: 60_000, failuresMax: 3 } },
    () => {
      if (++tries === 1) throw new Error('not yet')
    },
  )
  await hub.start()
  await hub.publish({ type: 'order.created', payload: 1 })
  await expect.poll(() => tries).toBe(1)
  await hub.queues.drain('orders')
  await clock.advance(1_000)
  expect((await hub.queues.get('orders')).drainedAt).toBeNull()
  await clock.advance(60_000)
  await expect.poll(() => tries).toBe(2)
  await untilDrained({ hub, clock })
})

test('what comes due in a lane during a drain is not stuck behind what is held', async () => {
  const { hub, clock } = await hubs.open()
  const handled: unknown[] = []
  hub.on('order.created', { name: 'orders' }, (event) => void handled.push(event.payload))
  await hub.subscribe('order.*', { name: 'others' })
  await hub.start()
  const runAt = new Date(Date.now() + 60_000)
  const order = { type: 'order.created', orderingKey: 'k' }
  await hub.publish({ ...order, payload: 'delayed', runAt })
  await hub.queues.drain('orders')
  await hub.publish({ ...order, payload: 'held' })
  await clock.advance(10_000)
  expect((await hub.queues.get('orders')).drainedAt).toBeNull()
  await clock.advance(60_000)
  await untilDrained({ hub, clock })
  expect(handled).toEqual(['delayed'])
  await hub.queues.resume('orders')
  await expect.poll(() => handled).toEqual(['delayed', 'held'])
})

test('a queue that drained into a suspension still refuses what is owed to nobody else', async () => {
  const { hub } = await hubs.open({ schema: 'suspended' })
  await hub.subscribe('order.*', { name: 'orders' })
  await hub.queues.drain('orders')
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  await client.query(`update suspended.subscriptions set status = 'suspended' where name = 'orders'`)
  await client.end()
  await expect(hub.publish({ type: 'order.created', payload: 1 })).rejects.toMatchObject({
    code: 'QUEUE_DRAINING',
  })
})

test('a replay waits while its subscription drains', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('order.*', { name: 'orders' })
  const { id } = await hub.publish({ type: 'order.created', payload: 1 })
  await hub.poll({ subscription: 'orders' })
  await hub.finalize(id)
  await hub.queues.drain('orders')
  const { replay } = await hub.replay('orders', { eventIds: [id] })
  await untilDrained({ hub, clock })
  expect((await hub.getReplay(replay.id)).done).toBe(0)
  await hub.queues.resume('orders')
  await clock.advance(5_000)
  expect(await hub.poll({ subscription: 'orders' })).toMatchObject({ id })
})

test('draining twice does not move the goal, and pausing gives it up', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('order.*', { name: 'orders' })
  await hub.subscribe('order.*', { name: 'others' })
  await hub.queues.drain('orders')
  await hub.publish({ type: 'order.created', payload: 1 })
  await hub.queues.drain('orders')
  await untilDrained({ hub, clock })
  expect((await hub.queues.get('orders')).depth).toBe(1)
  expect(await hub.poll({ subscription: 'orders' })).toBeNull()
  await hub.queues.pause('orders')
  await hub.queues.resume('orders')
  expect(await hub.poll({ subscription: 'orders' })).toMatchObject({ payload: 1 })
})

test('what is in hand goes back within a second when nobody was told of a pause', async () => {
  const { hub } = await hubs.open({ schema: 'missed' })
  const end = createSignal()
  let begun = 0
  hub.on('order.created', { name: 'orders', concurrency: 1 }, () => {
    begun++
    return end.given
  })
  await hub.start()
  for (const n of numbers(1, 5)) await hub.publish({ type: 'order.created', payload: n })
  const client = new pg.Client({ ...hubs.connection })
  await client.connect()
  const leased = async () => {
    const { rows } = await client.query(`select count(*)::int as n from missed.runs where state = 'leased'`)
    return rows[0].n
  }
  try {
    await expect.poll(leased).toBeGreaterThan(1)
    await client.query('alter table missed.subscriptions disable trigger user')
    await client.query(`update missed.subscriptions set status = 'paused' where name = 'orders'`)
    await expect.poll(leased).toBe(1)
    end.give()
    await expect.poll(leased).toBe(0)
    expect(begun).toBe(1)
  } finally {
    await client.end()
  }
})
