import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Hold } from '../../src/memory/hold.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_moving')
const delayMs = 3_600_000
const retry = { kind: 'fixed', delayMs, failuresMax: 3 } as const
const inMemory = { name: 'm', storage: 'memory', concurrency: 4, retry } as const
const inDatabase = { name: 'm', retry } as const

async function rows<Row extends object>(text: string): Promise<Row[]> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}

test.each(['k', null])(
  'a queue that is moved to the database keeps the failures, attempts and wait of what was tried (key %s)',
  async (orderingKey) => {
    const schema = `tried_${orderingKey}`
    const first = await hubs.open({ schema })
    let failed = 0
    first.hub.on('t', inMemory, () => {
      failed++
      throw new Error('not yet')
    })
    await first.hub.start()
    const { id } = await first.hub.publish({ type: 't', payload: 1, orderingKey })
    await eventually('it has failed', () => failed === 1)
    await first.hub.stop()

    const second = await hubs.open({ schema })
    const attempts: unknown[] = []
    second.hub.on('t', inDatabase, (_, { number, failures }) => {
      attempts.push({ number, failures })
      throw new Error('no')
    })
    await second.hub.start()
    await second.drain()
    expect(attempts).toEqual([])
    expect(await rows(`select state, attempts, failures from ${schema}.runs`)).toEqual([
      { state: 'deferred', attempts: 1, failures: 1 },
    ])
    const [wait] = await rows<{ ms: number }>(
      `select extract(epoch from due_at - ${schema}.clock())::float8 * 1000 as ms from ${schema}.runs`,
    )
    expect(wait?.ms).toBeLessThanOrEqual(delayMs)
    expect(wait?.ms).toBeGreaterThan(delayMs / 2)
    for (let n = 0; n < 3; n++) {
      await second.clock.advance(delayMs)
      await second.drain()
    }
    expect(attempts).toEqual([
      { number: 2, failures: 1 },
      { number: 3, failures: 2 },
    ])
    const { deadLetters } = await second.hub.deadLetters({})
    expect(deadLetters).toMatchObject([{ eventId: id, attempts: 3, failures: 3 }])
    const records = await rows(`select settlement, reason from ${schema}.audit order by attempt`)
    expect(records.map(({ settlement }: { settlement?: string }) => settlement)).toEqual([
      'retried',
      'retried',
      'buried',
    ])
    expect(records[0]).toMatchObject({ reason: expect.stringContaining('not yet') })
  },
)

test('a lane that is moved while its head waits for a retry waits with it, and keeps its order', async () => {
  const first = await hubs.open({ schema: 'waiting' })
  let failed = 0
  first.hub.on('t', inMemory, () => {
    failed++
    throw new Error('not yet')
  })
  await first.hub.start()
  // More than a run of a lane holds.
  const payloads = Array.from({ length: 120 }, (_, n) => n)
  await first.hub.publishMany(payloads.map((payload) => ({ type: 't', payload, orderingKey: 'k' })))
  await eventually('the head has failed', () => failed === 1)
  await first.hub.stop()

  const second = await hubs.open({ schema: 'waiting' })
  const seen: unknown[] = []
  second.hub.on('t', inDatabase, ({ payload }) => void seen.push(payload))
  await second.hub.start()
  await second.hub.publish({ type: 't', payload: 120, orderingKey: 'k' })
  await second.drain()
  expect(seen).toEqual([])
  await second.clock.advance(delayMs)
  await eventually('all have run', () => {
    second.hub.wake()
    return seen.length === 121
  })
  expect(seen).toEqual([...payloads, 120])
})

test('what is moved goes before what was stored of its lane', async () => {
  const first = await hubs.open({ schema: 'behind' })
  const never = createSignal()
  let begun = 0
  first.hub.on('t', inMemory, () => {
    begun++
    return never.given
  })
  await first.hub.start()
  const keyed = (payload: number) => ({ type: 't', payload, orderingKey: 'k' })
  await first.hub.publishMany([1, 2, 3].map(keyed))
  await eventually('the head is out', () => begun === 1)
  const expiresAt = new Date(Date.now() + 2 * delayMs)
  // What expires is stored, and so is all behind it.
  for (const payload of [4, 5, 6]) {
    expect(await first.hub.publish({ ...keyed(payload), expiresAt })).toMatchObject({ durability: 'durable' })
  }
  await first.hub.publish(keyed(7))
  await first.hub.sweep()
  await first.hub.stop({ graceMs: 0 })

  const second = await hubs.open({ schema: 'behind' })
  const seen: unknown[] = []
  second.hub.on('t', inDatabase, ({ payload }) => void seen.push(payload))
  await second.hub.start()
  await eventually('all have run', () => {
    second.hub.wake()
    return seen.length === 7
  })
  expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7])
  await eventually('nothing is left', async () => {
    const left = await rows('select 1 from behind.lane_queue union all select 1 from behind.runs')
    return left.length === 0
  })
})

test('a move that fails leaves the queue as it was', async () => {
  const first = await hubs.open({ schema: 'whole' })
  first.hub.on('t', inMemory, () => new Promise(() => undefined))
  await first.hub.start()
  const keyed = (payload: number) => ({ type: 't', payload, orderingKey: `k${payload % 3}` })
  await first.hub.publishMany([1, 2, 3, 4, 5].map(keyed))
  await first.hub.stop({ graceMs: 0 })
  await rows(`create function whole.refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
    create trigger refuse before insert on whole.runs execute function whole.refuse()`)

  const second = await hubs.open({ schema: 'whole' })
  const seen: unknown[] = []
  second.hub.on('t', inDatabase, ({ payload }) => void seen.push(payload))
  await expect(second.hub.start()).rejects.toThrow('no')
  expect(await rows('select 1 from whole.events union all select 1 from whole.inbox')).toEqual([])
  expect(await rows('select 1 from whole.memory_events')).toHaveLength(5)
  await rows('drop trigger refuse on whole.runs')
  await second.hub.stop()

  const third = await hubs.open({ schema: 'whole' })
  third.hub.on('t', inDatabase, ({ payload }) => void seen.push(payload))
  await third.clock.advance(6_000)
  await third.hub.start()
  await third.drain()
  expect(seen.sort()).toEqual([1, 2, 3, 4, 5])
})

test('a process that has the queue moves it as soon as another wants it in the database, and no two attempts overlap', async () => {
  const first = await hubs.open({ schema: 'alive' })
  const begun: unknown[] = []
  const overlaps: unknown[] = []
  const head = createSignal()
  let running = 0
  const handle = async ({ payload }: { payload: unknown }) => {
    begun.push(payload)
    if (running++ > 0) overlaps.push(payload)
    await (payload === 1 ? head.given : new Promise(setImmediate))
    running--
  }
  first.hub.on('t', inMemory, handle)
  await first.hub.start()
  const keyed = (payload: number) => ({ type: 't', payload, orderingKey: 'k' })
  await first.hub.publishMany([1, 2, 3].map(keyed))
  await eventually('the head is out', () => begun.length === 1)
  const expiresAt = new Date(Date.now() + 2 * delayMs)
  await first.hub.publish({ ...keyed(4), expiresAt })
  await first.hub.publish(keyed(5))

  const second = await hubs.open({ schema: 'alive' })
  second.hub.on('t', inDatabase, handle)
  // The head ends while the first hub gives the queue up.
  const { close } = Hold.prototype
  vi.spyOn(Hold.prototype, 'close').mockImplementation(function (this: Hold) {
    close.call(this)
    head.give()
  })
  onTestFinished(() => void vi.restoreAllMocks())
  await second.hub.start()
  await eventually('all have run', () => {
    second.hub.wake()
    first.hub.wake()
    return [1, 2, 3, 4, 5].every((payload) => begun.includes(payload))
  })
  expect(begun).toEqual([1, 2, 3, 4, 5])
  expect(overlaps).toEqual([])
})
