import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('replays_library')
const longAgo = new Date('2020-01-01T00:00:00Z')

test('a handler gets its dead letters once more, and then all of the past, in order', async () => {
  const { hub, drain } = await hubs.open()
  const handled: number[] = []
  let isBroken = true
  hub.on('order.*', { name: 'orders' }, (event, attempt) => {
    if (isBroken) return attempt.bury('broken')
    handled.push(event.id)
  })
  await hub.start()
  const published = await hub.publishMany(
    Array.from({ length: 5 }, () => ({ type: 'order.made', payload: null, orderingKey: 'a' })),
  )
  await drain()
  isBroken = false
  const { replay, isNew } = await hub.recover('orders', { since: longAgo })
  expect({ isNew, replay }).toMatchObject({ isNew: true, replay: { state: 'completed', done: 5 } })
  await drain()
  expect(handled).toEqual(published.map(({ id }) => id))
  await hub.replay('orders', { from: longAgo })
  await drain()
  expect(handled).toEqual([...published, ...published].map(({ id }) => id))
  expect((await hub.deadLetters()).total).toBe(0)
})

test('a pull subscription that is new gets the past, and work is replayed with its own limits', async () => {
  const { hub } = await hubs.open()
  const { id } = await hub.publish({
    type: 'order.made',
    title: 'Order',
    tags: 'eu',
    payload: null,
    maxRetries: 7,
  })
  await hub.subscribe('order.*', { name: 'late' })
  expect((await hub.replay('late', { eventIds: [id] })).replay).toMatchObject({ done: 1 })
  expect((await hub.poll({ subscription: 'late' }))?.id).toBe(id)
  expect((await hub.poll())?.id).toBe(id)
  await hub.finalize(id, undefined, { subscription: 'work' })
  expect((await hub.replay('work', { eventIds: [id] })).replay).toMatchObject({ done: 1 })
  expect(await hub.poll()).toMatchObject({ id, maxRetries: 7 })
})

test('a replay is looked up and aborted by its id', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('order.*', { name: 'late' })
  const { replay } = await hub.replay('late', { eventType: 'order.*', ratePerSecond: 1 }, { by: 'olga' })
  expect(replay).toMatchObject({ createdBy: 'olga', state: 'completed', total: 0 })
  expect(await hub.getReplay(replay.id)).toEqual(replay)
  expect(await hub.abortReplay(replay.id)).toEqual(replay)
  await clock.advance(1_000)
  const missing = { code: 'NOT_FOUND' }
  await expect(hub.getReplay('x')).rejects.toMatchObject(missing)
  await expect(hub.abortReplay(replay.id.replace(/^../, 'ff'))).rejects.toMatchObject(missing)
  await expect(hub.recover('nobody', { since: longAgo })).rejects.toMatchObject(missing)
  await expect(hub.replay('late', {})).rejects.toMatchObject({ code: 'BAD_FIELD' })
  const odd = { since: new Date('x') }
  await expect(hub.recover('late', odd)).rejects.toMatchObject({ code: 'BAD_FIELD' })
})
