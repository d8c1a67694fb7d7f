import { expect, test } from 'vitest'
import { getDeadLetter, listDeadLetters } from '../../src/deliveries/dead-letters.ts'
import { redrive } from '../../src/deliveries/redrive.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'

const openEngine = useEngines('dead_letters')

async function bury(engine: Engine, subscription: number, reason: string): Promise<void> {
  for (const delivery of await engine.lease(subscription)) {
    await engine.settle(delivery, { settlement: 'buried', reason })
  }
}

test('a dead letter has the event as it was, byte for byte, and names its delivery', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order'])
  const payloadText = '{"b" : 12345678901234567890, "a":1}'
  const id = only(await engine.publish({ type: 'order', payload: undefined, payloadText }))
  await bury(engine, orders, 'no such customer')
  const letter = only((await listDeadLetters(engine.db)).deadLetters)
  const found = await getEvent(engine.db, { id, logs: 'without' })
  expect(letter).toMatchObject({
    eventId: id,
    deliveryId: only(found?.deliveries ?? []).id,
    subscription: orders,
    kind: 'buried',
    reason: 'no such customer',
    attempts: 1,
    failures: 1,
    redrivenAt: null,
  })
  expect(letter.eventText).toContain(payloadText)
  expect(JSON.parse(letter.subscriptionText as string)).toMatchObject({ name: 'orders' })
  expect(await getDeadLetter(engine.db, letter.id)).toEqual(letter)
})

test('an id that is unknown, or none at all, finds nothing', async () => {
  const { db } = await openEngine()
  expect(await getDeadLetter(db, '01890000-0000-7000-8000-000000000000')).toBeUndefined()
  expect(await getDeadLetter(db, 'x')).toBeUndefined()
})

test('dead letters are filtered by subscription, kind and time, and paged by cursor', async () => {
  const engine = await openEngine()
  const { db } = engine
  const orders = await engine.subscribe('orders', ['order'])
  const mails = await engine.subscribe('mails', ['mail'])
  await engine.publish({ type: 'order' }, { type: 'order' }, { type: 'mail' })
  await bury(engine, orders, 'early')
  await engine.moveClock(60_000)
  await bury(engine, mails, 'late')

  const { deadLetters: all } = await listDeadLetters(db)
  expect(all.map(({ reason }) => reason)).toEqual(['early', 'early', 'late'])
  const { buriedAt } = all[2] as { buriedAt: Date }
  const reasons = async (filter: Parameters<typeof listDeadLetters>[1]) =>
    (await listDeadLetters(db, filter)).deadLetters.map(({ reason }) => reason)
  expect(await reasons({ subscription: mails })).toEqual(['late'])
  expect(await reasons({ kind: 'expired' })).toEqual([])
  expect(await reasons({ kind: 'buried', order: 'desc', limit: 1 })).toEqual(['late'])
  expect(await reasons({ since: buriedAt })).toEqual(['late'])
  expect(await reasons({ until: buriedAt })).toEqual(['early', 'early'])

  const first = await listDeadLetters(db, { limit: 2 })
  expect(first).toMatchObject({ total: 3, totalIsEstimate: false })
  const rest = await listDeadLetters(db, { limit: 2, cursor: first.nextCursor as string })
  expect([...first.deadLetters, ...rest.deadLetters]).toEqual(all)
  expect(rest.nextCursor).toBeNull()
})

test('a redriven dead letter is only shown when asked for', async () => {
  const engine = await openEngine()
  const orders = await engine.subscribe('orders', ['order'])
  await engine.publish({ type: 'order' })
  await bury(engine, orders, 'broken')
  const { id } = only((await listDeadLetters(engine.db)).deadLetters)
  await redrive(engine.db, { deadLetterIds: [id], by: 'olga' })
  expect((await listDeadLetters(engine.db)).total).toBe(0)
  const { deadLetters } = await listDeadLetters(engine.db, { includeRedriven: true })
  expect(only(deadLetters)).toMatchObject({ id, redrivenBy: 'olga' })
})

test('a kind that does not exist is refused', async () => {
  const { db } = await openEngine()
  await expect(listDeadLetters(db, { kind: 'lost' as never })).rejects.toMatchObject({ code: 'BAD_OPTION' })
})
