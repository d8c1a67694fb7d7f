import { describe, expect, test } from 'vitest'
import { listDeadLetters } from '../../src/deliveries/dead-letters.ts'
import { listDeliveries } from '../../src/deliveries/list-deliveries.ts'
import {
  type BuryRequest,
  buryWaiting,
  redrive,
  retryWaiting,
  unblockLane,
} from '../../src/deliveries/repair.ts'
import { Admitter } from '../../src/engine/admit.ts'
import { type Engine, only, useEngines, workOff } from '../support/engine.ts'

const openEngine = useEngines('bury', { schemas: 'emptied' })

function bury(engine: Engine, eventId: number, subscription: number, options: Partial<BuryRequest> = {}) {
  const request = { eventId, subscription, reason: 'by hand', lane: 'as usual' as const, ...options }
  return buryWaiting(engine.db, new Admitter(engine.db), request)
}

async function statuses(engine: Engine): Promise<string[]> {
  return (await listDeliveries(engine.db)).deliveries.map(({ status }) => status)
}

const leasedIds = async (engine: Engine, no: number) => (await engine.lease(no)).map(({ event }) => event.id)

describe('a delivery is buried wherever it waits:', () => {
  test('ready, in the middle of a run', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [first, second, third] = (await engine.publish({}, {}, {})) as [number, number, number]
    expect(await bury(engine, second, no)).toEqual({ name: 's', type: 'note', stopsLane: null })
    expect(await statuses(engine)).toEqual(['pending', 'dlq', 'pending'])
    expect(await workOff(engine, no)).toEqual([first, third])
  })

  test('waiting for a retry', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [id] = (await engine.publish({})) as [number]
    await engine.settle(only(await engine.lease(no)), { settlement: 'retried', afterMs: 1000, reason: 'no' })
    expect(await bury(engine, id, no)).toBeDefined()
    const letter = only((await listDeadLetters(engine.db)).deadLetters)
    expect(letter).toMatchObject({ eventId: id, attempts: 1, failures: 1, reason: 'by hand', kind: 'buried' })
    await engine.moveClock(2000)
    expect(await leasedIds(engine, no)).toEqual([])
  })

  test('delayed, without taking its lane along', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
    const runAt = new Date('2100-01-01T00:00:00Z')
    const [later, now] = (await engine.publish({ orderingKey: 'k', runAt }, { orderingKey: 'k' })) as [
      number,
      number,
    ]
    expect(await bury(engine, later, no)).toMatchObject({ stopsLane: null })
    expect(await workOff(engine, no)).toEqual([now])
  })

  test('arrived, and in no lane yet', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [first, second] = (await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })) as [
      number,
      number,
    ]
    expect(await bury(engine, first, no)).toBeDefined()
    expect(await workOff(engine, no)).toEqual([second])
  })

  test('gated, and the next one comes through', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.db.query(`update ${engine.db.schema}.subscriptions set key_concurrency = 1 where no = $1`, [
      no,
    ])
    const ids = await engine.publish(
      { concurrencyKey: 'c' },
      { concurrencyKey: 'c' },
      { concurrencyKey: 'c' },
    )
    const [first, second, third] = ids as [number, number, number]
    const held = only(await engine.lease(no))
    expect(held.event.id).toBe(first)
    expect(await bury(engine, second, no)).toBeDefined()
    await engine.settle(held)
    expect(await workOff(engine, no)).toEqual([third])
  })

  test('in the queue of its lane, and the lane keeps its order', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
    await engine.publish({ orderingKey: 'k' })
    const head = only(await engine.lease(no))
    const [second, third, fourth] = (await engine.publish(
      ...[{ orderingKey: 'k' }, { orderingKey: 'k' }, { orderingKey: 'k' }],
    )) as [number, number, number]
    expect(await bury(engine, third, no)).toMatchObject({ stopsLane: null })
    await engine.settle(head)
    expect(await workOff(engine, no)).toEqual([second, fourth])
  })
})

test('the lane goes on behind a head that is buried, and a redrive brings it to the end', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [first, second, third] = (await engine.publish(
    ...[{ orderingKey: 'k' }, { orderingKey: 'k' }, { orderingKey: 'k' }],
  )) as [number, number, number]
  expect(await bury(engine, first, no)).toMatchObject({ stopsLane: null })
  const { id } = only((await listDeadLetters(engine.db)).deadLetters)
  await redrive(engine.db, { deadLetterIds: [id], by: 'olga' })
  expect(await workOff(engine, no)).toEqual([second, third, first])
})

test.each([[1], [3]])('a lane that blocks stops at its buried head, with %i in it', async (count) => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  const ids = await engine.publish(...Array.from({ length: count }, () => ({ orderingKey: 'k' })))
  const [first, ...rest] = ids as [number, ...number[]]
  expect(await bury(engine, first, no)).toMatchObject({ stopsLane: 'k' })
  const [late] = (await engine.publish({ orderingKey: 'k' })) as [number]
  expect(await leasedIds(engine, no)).toEqual([])
  expect(await unblockLane(engine.db, { subscription: no, orderingKey: 'k', verb: 'skip' })).toBe(first)
  expect(await workOff(engine, no)).toEqual([...rest, late])
})

test('retrying the buried head of a blocked lane puts it back to the head', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  const ids = await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })
  await bury(engine, ids[0] as number, no)
  const { id } = only((await listDeadLetters(engine.db)).deadLetters)
  await redrive(engine.db, { deadLetterIds: [id], by: 'olga' })
  expect(await workOff(engine, no)).toEqual(ids)
})

test('a lane that would block goes on where the operator says so', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  const [first, second] = (await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })) as [
    number,
    number,
  ]
  expect(await bury(engine, first, no, { lane: 'goes on' })).toMatchObject({ stopsLane: null })
  expect(await workOff(engine, no)).toEqual([second])
})

test('one behind a blocked head is buried, and the lane stays blocked', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  const [first, second, third] = (await engine.publish(
    ...[{ orderingKey: 'k' }, { orderingKey: 'k' }, { orderingKey: 'k' }],
  )) as [number, number, number]
  await bury(engine, first, no)
  expect(await bury(engine, second, no)).toMatchObject({ stopsLane: null })
  expect(await leasedIds(engine, no)).toEqual([])
  await unblockLane(engine.db, { subscription: no, orderingKey: 'k', verb: 'skip' })
  expect(await workOff(engine, no)).toEqual([third])
})

test('what a worker has, and what has ended, is not buried', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [id] = (await engine.publish({})) as [number]
  const held = only(await engine.lease(no))
  expect(await bury(engine, id, no)).toBeUndefined()
  await engine.settle(held)
  expect(await bury(engine, id, no)).toBeUndefined()
  expect(await statuses(engine)).toEqual(['delivered'])
  expect((await listDeadLetters(engine.db)).total).toBe(0)
})

test('of the deliveries of one event only the one that is meant is buried', async () => {
  const engine = await openEngine()
  const one = await engine.subscribe('one', ['note'])
  const other = await engine.subscribe('other', ['note'])
  const [id] = (await engine.publish({})) as [number]
  await bury(engine, id, one)
  expect(await leasedIds(engine, other)).toEqual([id])
  expect(await leasedIds(engine, one)).toEqual([])
})

test('a worker that comes late cannot settle what was buried meanwhile', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'], { onExhausted: 'block' })
  const [id] = (await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })) as [number]
  const [head] = await engine.lease(no)
  await engine.db.query(
    `update ${engine.db.schema}.runs set state = 'ready', leased_until = null, leased_at = null`,
  )
  expect(await bury(engine, id, no)).toMatchObject({ stopsLane: 'k' })
  await expect(engine.settle(head as never)).rejects.toThrow()
  expect(await statuses(engine)).toEqual(['dlq', 'pending'])
})

describe('retrying now', () => {
  const retry = (engine: Engine, eventId: number, subscription: number) =>
    retryWaiting(engine.db, { eventId, subscription, by: 'olga' })

  test('makes a retry due, with its failures', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [id] = (await engine.publish({})) as [number]
    await engine.settle(only(await engine.lease(no)), {
      settlement: 'retried',
      afterMs: 60_000,
      reason: 'no',
    })
    expect(await engine.lease(no)).toEqual([])
    expect(await retry(engine, id, no)).toBe(true)
    // Once more changes nothing.
    expect(await retry(engine, id, no)).toBe(true)
    const { deliveries } = await listDeliveries(engine.db)
    expect(only(deliveries)).toMatchObject({ status: 'failed', failures: 1, attempts: 1, nextAt: null })
    expect(only(await engine.lease(no))).toMatchObject({ attempt: 2, failures: 1 })
  })

  test('lets a lane go on with its head, and all behind it in order', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const ids = await engine.publish({ orderingKey: 'k' }, { orderingKey: 'k' })
    const [head] = await engine.lease(no)
    await engine.settle(head as never, { settlement: 'retried', afterMs: 60_000, reason: 'no' })
    expect(await retry(engine, ids[1] as number, no)).toBe(false)
    expect(await retry(engine, ids[0] as number, no)).toBe(true)
    expect(await workOff(engine, no)).toEqual(ids)
  })

  test('passes no gate that is full', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    await engine.db.query(`update ${engine.db.schema}.subscriptions set key_concurrency = 1 where no = $1`, [
      no,
    ])
    const [first, second] = (await engine.publish({ concurrencyKey: 'c' }, { concurrencyKey: 'c' })) as [
      number,
      number,
    ]
    await engine.settle(only(await engine.lease(no)), {
      settlement: 'retried',
      afterMs: 60_000,
      reason: 'no',
    })
    const held = only(await engine.lease(no))
    expect(held.event.id).toBe(second)
    expect(await retry(engine, first, no)).toBe(true)
    expect(await engine.lease(no)).toEqual([])
    await engine.settle(held)
    expect(await leasedIds(engine, no)).toEqual([first])
  })

  test('leaves alone what was never tried, what a worker has, and what has ended', async () => {
    const engine = await openEngine()
    const no = await engine.subscribe('s', ['note'])
    const [id] = (await engine.publish({ runAt: new Date('2100-01-01T00:00:00Z') })) as [number]
    expect(await retry(engine, id, no)).toBe(false)
    const [other] = (await engine.publish({})) as [number]
    const held = only(await engine.lease(no))
    expect(await retry(engine, other, no)).toBe(false)
    await engine.settle(held)
    expect(await retry(engine, other, no)).toBe(false)
  })
})

test('64 parallel redrives of one dead letter bring it back once', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  const [id] = (await engine.publish({ orderingKey: 'k' })) as [number]
  await bury(engine, id, no)
  const letter = only((await listDeadLetters(engine.db)).deadLetters).id
  const calls = Array.from({ length: 64 }, (_, place) =>
    redrive(engine.db, { deadLetterIds: [letter], by: `caller ${place}` }),
  )
  const answers = await Promise.all(calls)
  expect(answers.flat()).toHaveLength(1)
  expect(await workOff(engine, no)).toEqual([id])
})
