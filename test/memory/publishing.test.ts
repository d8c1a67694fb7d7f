import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { parseEvent } from '../../src/domain/event.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('memory_publishing')
const inMemory = { name: 'm', storage: 'memory' } as const

describe('what only memory queues of this process are owed', () => {
  test('passes through memory, and the answer says so', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ id, payload }) => void seen.push([id, payload]))
    await hub.start()
    const one = await hub.publish({ type: 't', payload: { n: 1 } })
    const many = await hub.publishMany([2, 3].map((n) => ({ type: 't', payload: { n } })))
    await drain()
    expect(one).toMatchObject({ replayed: false, deliveries: 1, durability: 'process', backpressure: [] })
    expect(many.map(({ durability }) => durability)).toEqual(['process', 'process'])
    expect(seen).toEqual([
      [one.id, { n: 1 }],
      [many[0]?.id, { n: 2 }],
      [many[1]?.id, { n: 3 }],
    ])
    expect((await hub.listEvents()).events).toEqual([])
  })

  test('goes to every one of them', async () => {
    const { hub, drain } = await hubs.open()
    const seen: string[] = []
    hub.on('t', inMemory, () => void seen.push('m'))
    hub.on('*', { name: 'n', storage: 'memory' }, () => void seen.push('n'))
    await hub.start()
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({
      deliveries: 2,
      durability: 'process',
    })
    await drain()
    expect(seen.sort()).toEqual(['m', 'n'])
  })

  test('keeps every field, and the bytes of its payload', async () => {
    const { hub, drain } = await hubs.open()
    const seen: object[] = []
    hub.on(
      't',
      inMemory,
      (event) => void seen.push({ ...JSON.parse(JSON.stringify(event)), text: event.payloadText }),
    )
    await hub.start()
    const payloadText = '{"a":  1e400, "a": "\\u0000"}'
    const timestamp = new Date('2026-01-02T03:04:05.678Z')
    const source = { type: 'workflow', id: '7', name: 'seven' }
    const event = {
      type: 't',
      title: 'T',
      description: 'D',
      version: '2',
      correlationId: 'c',
      causationId: 'd',
    }
    await hub.publish({
      ...event,
      source,
      timestamp,
      attributes: { a: 1 },
      orderingKey: 'k',
      payloadText: '1',
    })
    await hub.publish({ type: 't', payloadText })
    await drain()
    expect(seen[0]).toMatchObject({
      ...event,
      source,
      timestamp: timestamp.toISOString(),
      attributes: { a: 1 },
    })
    expect(seen[0]).toMatchObject({ orderingKey: 'k', tags: null })
    expect(seen[1]).toMatchObject({ text: payloadText })
  })

  test('is in the order of calls, whoever waits for whom', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
    await hub.start()
    const calls = Array.from({ length: 300 }, (_, n) =>
      n % 7 === 0
        ? hub.publishMany([n, n + 0.5].map((payload) => ({ type: 't', orderingKey: 'k', payload })))
        : hub.publish({ type: 't', orderingKey: 'k', payload: n }),
    )
    const ids = (await Promise.all(calls)).flat().map(({ id }) => id)
    await drain()
    expect(seen).toEqual([...(seen as number[])].sort((a, b) => a - b))
    expect(seen).toHaveLength(343)
    expect(ids).toEqual([...ids].sort((a, b) => a - b))
  })
})

describe('what needs more than memory can do is stored, and handled here', () => {
  test.each([
    ['an idempotency key', { idempotencyKey: 'i' }],
    ['a time before which it must not run', { runAt: new Date(Date.now() - 60_000) }],
    ['an expiry', { expiresAt: new Date(Date.now() + 3_600_000) }],
    ['a concurrency key', { concurrencyKey: 'c' }],
  ])('%s', async (_, more) => {
    const { hub, drain } = await hubs.open()
    const seen: number[] = []
    hub.on('t', inMemory, ({ id }) => void seen.push(id))
    await hub.start()
    const { id, durability } = await hub.publish({ type: 't', payload: 1, ...more })
    await drain()
    expect(durability).toBe('durable')
    expect(seen).toEqual([id])
    expect(await hub.event(id)).toMatchObject({ progress: { status: 'COMPLETED' } })
  })

  test('a type whose events expire', async () => {
    const { hub, drain } = await hubs.open()
    const seen: number[] = []
    hub.on('t', inMemory, ({ id }) => void seen.push(id))
    await hub.start()
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({ durability: 'process' })
    await hub.defineType('t', { maxAgeMs: 60_000 })
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({ durability: 'durable' })
    await hub.deleteType('t')
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({ durability: 'durable' })
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({ durability: 'process' })
    await drain()
    expect(seen).toHaveLength(4)
  })

  test('a queue with a limit over the whole fleet', async () => {
    const { hub, drain } = await hubs.open()
    let ran = 0
    hub.on('t', { ...inMemory, maxConcurrency: 1 }, () => void ran++)
    await hub.start()
    expect(await hub.publish({ type: 't', payload: 1 })).toMatchObject({ durability: 'durable' })
    await drain()
    expect(ran).toBe(1)
  })

  test('a call of which only some could pass', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
    await hub.start()
    const answers = await hub.publishMany([
      { type: 't', payload: 1 },
      { type: 'nobody', payload: 2 },
    ])
    await drain()
    expect(answers.map(({ durability, deliveries }) => [durability, deliveries])).toEqual([
      ['durable', 1],
      ['durable', 0],
    ])
    expect(seen).toEqual([1])
  })
})

describe('an event that a durable queue is owed as well', () => {
  test('is durable for both', async () => {
    const { hub, drain } = await hubs.open()
    const seen: string[] = []
    hub.on('t', inMemory, () => void seen.push('memory'))
    hub.on('t', { name: 'd' }, () => void seen.push('database'))
    await hub.start()
    const { id, durability, deliveries } = await hub.publish({ type: 't', payload: 1 })
    await drain()
    expect({ durability, deliveries }).toEqual({ durability: 'durable', deliveries: 2 })
    expect(seen.sort()).toEqual(['database', 'memory'])
    expect(await hub.event(id)).toMatchObject({ progress: { status: 'COMPLETED' } })
  })

  test('may come from another process', async () => {
    const { hub, drain } = await hubs.open({ schema: 'both' })
    const seen: string[] = []
    hub.on('t', inMemory, () => void seen.push('memory'))
    hub.on('t', { name: 'd' }, () => void seen.push('database'))
    await hub.start()
    const other = await hubs.open({ schema: 'both' })
    await other.hub.publish({ type: 't', payload: 1 })
    await drain()
    expect(seen.sort()).toEqual(['database', 'memory'])
  })

  test('is so from the moment on that the other subscription is acknowledged, whoever made it', async () => {
    const { hub } = await hubs.open({ schema: 'acked' })
    hub.on('t', inMemory, () => undefined)
    await hub.start()
    const other = await hubs.open({ schema: 'acked' })
    for (let n = 0; n < 10; n++) {
      expect(await hub.publish({ type: 't', payload: n })).toMatchObject({
        deliveries: 1,
        durability: 'process',
      })
      await other.hub.subscribe('t', { name: 'p' })
      expect(await hub.publish({ type: 't', payload: n })).toMatchObject({
        deliveries: 2,
        durability: 'durable',
      })
      await other.hub.unsubscribe('p')
      // What is stored tells that memory could have had it.
      expect(await hub.publish({ type: 't', payload: n })).toMatchObject({ deliveries: 1 })
    }
  })
})

describe('an event that nobody but memory queues is owed', () => {
  test('cannot be published from elsewhere', async () => {
    const { hub } = await hubs.open({ schema: 'elsewhere' })
    hub.on('t', inMemory, () => undefined)
    await hub.start()
    const other = await hubs.open({ schema: 'elsewhere' })
    await expect(other.hub.publish({ type: 't', payload: 1 })).rejects.toMatchObject({
      code: 'QUEUE_ELSEWHERE',
    })
    // As the routes of HTTP do it, in any process.
    const parsed = hub.publisher.publishParsed(parseEvent({ type: 't', payload: 1 }), 'elsewhere')
    await expect(parsed).rejects.toMatchObject({ code: 'QUEUE_ELSEWHERE', status: 409 })
    const client = new pg.Client(hubs.connection)
    await client.connect()
    await expect(client.query(`select elsewhere.publish('t', '1')`)).rejects.toMatchObject({ code: 'PHQ01' })
    await client.end()
  })

  test('cannot be part of a transaction', async () => {
    const { hub } = await hubs.open({ schema: 'in_tx' })
    hub.on('t', inMemory, () => undefined)
    await hub.start()
    const client = new pg.Client(hubs.connection)
    await client.connect()
    await client.query('begin')
    const published = hub.publish({ type: 't', payload: 1 }, { tx: client })
    await expect(published).rejects.toMatchObject({ code: 'QUEUE_IN_MEMORY', status: 422 })
    await client.end()
  })
})

describe('what a subscription looks into', () => {
  test('a filter decides by the payload', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, filter: { '/payload/paid': true } }, ({ payload }) => void seen.push(payload))
    await hub.start()
    const answers = await hub.publishMany([{ paid: true }].map((payload) => ({ type: 't', payload })))
    const other = await hub.publish({ type: 't', payload: { paid: false } })
    await drain()
    expect(answers).toMatchObject([{ deliveries: 1, durability: 'process' }])
    expect(other).toMatchObject({ deliveries: 0, durability: 'durable' })
    expect(seen).toEqual([{ paid: true }])
  })

  test('an ordering key in the payload makes its lanes', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, orderingKey: '/payload/k' }, ({ payload }, { number }) => {
      seen.push((payload as { n: number }).n)
      if (number === 1 && seen.length === 1) throw new Error('no')
    })
    await hub.start()
    const payloads = [
      { n: 1, k: 'a' },
      { n: 2, k: 'a' },
      { n: 3, k: 'b' },
    ]
    const answers = await hub.publishMany(payloads.map((payload) => ({ type: 't', payload })))
    await drain()
    expect(seen).toEqual([1, 3])
    await clock.advance(60_000)
    await drain()
    expect(answers.every(({ durability }) => durability === 'process')).toBe(true)
    expect(seen).toEqual([1, 3, 1, 2])
  })
})

describe('a queue that is', () => {
  test('past its high watermark says so', async () => {
    const { hub } = await hubs.open()
    const told: string[] = []
    hub.events.on('backpressure', ({ queue }) => told.push(queue))
    hub.on(
      't',
      { ...inMemory, highWatermark: 2, maxQueueDepth: 5 },
      ({ payload }) => payload === 0 || new Promise(() => undefined),
    )
    await hub.start()
    const pressed = []
    for (let n = 1; n <= 3; n++) pressed.push((await hub.publish({ type: 't', payload: n })).backpressure)
    expect(pressed).toEqual([[], ['m'], ['m']])
    expect(told).toEqual(['m', 'm'])
  })

  test('full refuses the whole call, and takes more when there is room', async () => {
    const { hub, drain } = await hubs.open()
    let finish = (): void => undefined
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    hub.on('t', { ...inMemory, maxQueueDepth: 3 }, () => finished)
    await hub.start()
    const events = [1, 2].map((payload) => ({ type: 't', payload }))
    await hub.publishMany(events)
    await expect(hub.publishMany(events)).rejects.toMatchObject({ code: 'QUEUE_FULL', status: 429 })
    await hub.publish({ type: 't', payload: 3 })
    await expect(hub.publish({ type: 't', payload: 4 })).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    expect(hub.memory.views[0]?.depth).toBe(3)
    finish()
    await drain()
    expect(await hub.publish({ type: 't', payload: 5 })).toMatchObject({ durability: 'process' })
  })

  test('full and told to hold stores the rest', async () => {
    const { hub, drain } = await hubs.open()
    let finish = (): void => undefined
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    let ran = 0
    hub.on('t', { ...inMemory, maxQueueDepth: 1, onFull: 'hold' }, () => finished.then(() => ran++))
    await hub.start()
    const answers = [
      await hub.publish({ type: 't', payload: 1 }),
      await hub.publish({ type: 't', payload: 2 }),
    ]
    expect(answers.map(({ durability }) => durability)).toEqual(['process', 'durable'])
    finish()
    await drain()
    expect(ran).toBe(2)
  })
})
