import { expect, test } from 'vitest'
import {
  type DeadLetterFilter,
  type DeadLetterHead,
  getDeadLetter,
  listDeadLetterHeads,
  listDeadLetters,
} from '../../src/deliveries/dead-letters.ts'
import { redrive } from '../../src/deliveries/repair.ts'
import { getEvent } from '../../src/events/get-event.ts'
import { type Engine, only, useEngines } from '../support/engine.ts'
import { allPages, oneWindow, unbounded } from '../support/list-bounds.ts'

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

/** Dead letters of both kinds, of two subscriptions and of none, some of them redriven, over a hundred minutes. */
async function manyLetters({ db, subscribe, publish }: Engine): Promise<number[]> {
  const nos = [await subscribe('a', ['a', 'b']), await subscribe('b', ['b'])]
  const ids = await publish(...Array.from({ length: 150 }, (_, n) => ({ type: n % 3 === 0 ? 'a' : 'b' })))
  for (const [n, id] of ids.entries()) {
    const at = new Date(Date.UTC(2024, 0, 1) + n * 40_000)
    await db.query(
      `insert into ${db.schema}.dead_letters (id, event_id, subscription, kind, reason, attempts, failures, event_snapshot, buried_at, redriven_at)
      values ((left(${db.schema}.uuid_floor($5)::text, 24) || lpad(to_hex($1::bigint), 12, '0'))::uuid, $1, $2, $3, 'because', 1, 1,
        json_build_object('created_at', now()), $5, $4)`,
      [id, [...nos, null][n % 3], n % 5 === 0 ? 'expired' : 'buried', n % 7 === 0 ? at : null, at],
    )
  }
  return ids
}

test('every filter agrees with a look at every dead letter, in both orders and with short pages', async () => {
  const engine = await openEngine()
  const ids = await manyLetters(engine)
  const { deadLetters: all } = await listDeadLetterHeads(
    engine.db,
    { includeRedriven: true, limit: 1000 },
    unbounded,
  )
  expect(all.map(({ eventId }) => eventId)).toEqual(ids)
  const middle = all[70]?.buriedAt as Date
  const parts: DeadLetterFilter[][] = [
    [{}, { kind: 'buried' }, { kind: 'expired' }],
    [{}, { subscription: all[0]?.subscription as number }, { subscription: 99 }],
    [{}, { eventType: 'a' }, { eventType: 'none' }, { eventId: ids[31] as number }],
    [{}, { since: middle }, { until: middle }],
    [{}, { includeRedriven: true }],
  ]
  const filters = parts.reduce((done, part) =>
    done.flatMap((one) => part.map((more) => ({ ...one, ...more }))),
  )
  for (const [at, filter] of filters.entries()) {
    const order = at % 2 === 0 ? 'asc' : 'desc'
    const expected = all.filter((letter) => fits(letter, filter)).map(({ id }) => id)
    if (order === 'desc') expected.reverse()
    for (const bounds of [unbounded, oneWindow]) {
      const pages = await allPages((cursor) =>
        listDeadLetterHeads(engine.db, { ...filter, order, limit: 20, ...cursor }, bounds),
      )
      const found = pages.flatMap(({ deadLetters }) => deadLetters.map(({ id }) => id))
      expect([filter, found]).toEqual([filter, expected])
      const last = pages.at(-1)
      expect([filter, last?.total, last?.totalIsEstimate]).toEqual([filter, expected.length, false])
    }
  }
})

function fits(letter: DeadLetterHead, filter: DeadLetterFilter): boolean {
  const { kind, subscription, eventType, eventId, since, until, includeRedriven = false } = filter
  return (
    (kind === undefined || letter.kind === kind) &&
    (subscription === undefined || letter.subscription === subscription) &&
    (eventType === undefined || letter.eventType === eventType) &&
    (eventId === undefined || letter.eventId === eventId) &&
    (since === undefined || letter.buriedAt >= since) &&
    (until === undefined || letter.buriedAt < until) &&
    (includeRedriven || letter.redrivenAt === null)
  )
}
