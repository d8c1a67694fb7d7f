import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_handling')
const inMemory = { name: 'm', storage: 'memory' } as const
/** Shorter than a lease, which would end by the clock that is moved. */
const slowly = { kind: 'fixed', delayMs: 20_000, failuresMax: 3 } as const
const toEvent = (payload: unknown) => ({ type: 't', payload })
const inLane = (payload: unknown) => ({ type: 't', orderingKey: 'k', payload })

describe('an attempt', () => {
  test('that fails is made again after its backoff, by the clock of the database', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: number[] = []
    hub.on('t', { ...inMemory, retry: { failuresMax: 3 } }, (_, { number, failures }) => {
      seen.push(number, failures)
      if (number < 3) throw new Error('no')
    })
    await hub.start()
    await hub.publish(toEvent(1))
    await drain()
    expect(seen).toEqual([1, 0])
    await clock.advance(60_000)
    await drain()
    await clock.advance(60_000)
    await drain()
    expect(seen).toEqual([1, 0, 2, 1, 3, 2])
    expect(hub.memory.views[0]?.depth).toBe(0)
  })

  test('that snoozes costs no failure', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: number[] = []
    hub.on('t', { ...inMemory, retry: { failuresMax: 1 } }, (_, attempt) => {
      seen.push(attempt.failures)
      if (attempt.number === 1) attempt.snooze(1_000)
    })
    await hub.start()
    await hub.publish(toEvent(1))
    await drain()
    await clock.advance(1_000)
    await drain()
    expect(seen).toEqual([0, 0])
  })

  test('that takes too long is told to stop, and made again', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: number[] = []
    hub.on('t', { ...inMemory, timeoutMs: 50 }, (_, { number, signal }) => {
      seen.push(number)
      if (number === 1) return new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    await hub.start()
    await hub.publish(toEvent(1))
    await eventually('it was told to stop', () => hub.memory.views[0]?.figures.delayed === 1)
    await clock.advance(60_000)
    await drain()
    expect(seen).toEqual([1, 2])
  })
})

describe('a lane', () => {
  test('waits for its head, and other lanes do not', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ payload }, { number }) => {
      seen.push(payload)
      if (payload === 1 && number === 1) throw new Error('no')
    })
    await hub.start()
    await hub.publishMany([inLane(1), inLane(2), { ...inLane(3), orderingKey: 'other' }, inLane(4)])
    await drain()
    expect(seen).toEqual([1, 3])
    await hub.publish(inLane(5))
    await clock.advance(60_000)
    await drain()
    expect(seen).toEqual([1, 3, 1, 2, 4, 5])
  })

  test('is one at a time, whatever the concurrency', async () => {
    const { hub, drain } = await hubs.open()
    let active = 0
    let most = 0
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, concurrency: 8 }, async ({ payload }) => {
      most = Math.max(most, ++active)
      await new Promise(setImmediate)
      active--
      seen.push(payload)
    })
    await hub.start()
    const payloads = Array.from({ length: 200 }, (_, n) => n)
    await hub.publishMany(payloads.map(inLane))
    await drain()
    expect(most).toBe(1)
    expect(seen).toEqual(payloads)
  })

  test('goes on when its head is buried', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ payload }, attempt) => {
      seen.push(payload)
      if (payload === 2) attempt.bury('no good')
    })
    await hub.start()
    await hub.publishMany([1, 2, 3, 4].map(inLane))
    await drain()
    expect(seen).toEqual([1, 2, 3, 4])
  })

  test('that stops at its buried head does so in the database, until somebody decides', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, onExhausted: 'block' }, ({ payload }, attempt) => {
      seen.push(payload)
      if (payload === 1) attempt.bury('no good')
    })
    await hub.start()
    await hub.publishMany([1, 2].map(inLane))
    await drain()
    expect(await hub.publish(inLane(3))).toMatchObject({ durability: 'durable' })
    expect(await hub.publish({ ...inLane(4), orderingKey: 'other' })).toMatchObject({ durability: 'process' })
    await drain()
    expect(seen).toEqual([1, 4])
    await hub.unblock('m', 'k', 'skip')
    await drain()
    expect(seen).toEqual([1, 4, 2, 3])
    expect(await hub.publish(inLane(5))).toMatchObject({ durability: 'process' })
  })

  test('that is partly in memory and partly in the database keeps its order', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, retry: slowly }, ({ payload }, { number }) => {
      seen.push(payload)
      if (number === 1 && (payload === 1 || payload === 3)) throw new Error('no')
    })
    await hub.start()
    const durabilities: string[] = []
    const publish = async (event: ReturnType<typeof inLane> & { idempotencyKey?: string }) => {
      durabilities.push((await hub.publish(event)).durability)
    }
    await publish(inLane(1))
    await publish(inLane(2))
    await publish({ ...inLane(3), idempotencyKey: 'i' })
    await publish(inLane(4))
    await eventually('the head was tried', () => hub.memory.views[0]?.figures.delayed === 1)
    await clock.advance(20_000)
    await eventually('the stored head was tried', () => seen.length === 4)
    await publish(inLane(5))
    expect(seen).toEqual([1, 1, 2, 3])
    await clock.advance(20_000)
    await drain()
    expect(seen).toEqual([1, 1, 2, 3, 3, 4, 5])
    expect(durabilities).toEqual(['process', 'process', 'durable', 'durable', 'durable'])
    expect(await hub.publish(inLane(6))).toMatchObject({ durability: 'process' })
  })

  test('that is stored does not wait for other lanes in memory, also if its key is in the payload', async () => {
    const { hub, drain, clock } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, retry: slowly, orderingKey: '/payload/k' }, ({ payload }, { number }) => {
      const { n } = payload as { n: number }
      seen.push(n)
      if (n === 1 && number === 1) throw new Error('no')
    })
    await hub.start()
    await hub.publish(toEvent({ n: 1, k: 'a' }))
    await eventually('the head was tried', () => hub.memory.views[0]?.figures.delayed === 1)
    await hub.publish({ ...toEvent({ n: 2, k: 'a' }), idempotencyKey: 'i' })
    await hub.publish({ ...toEvent({ n: 3, k: 'b' }), idempotencyKey: 'j' })
    await eventually('the other lane is done', () => seen.length === 2)
    expect(seen).toEqual([1, 3])
    await clock.advance(20_000)
    await drain()
    expect(seen).toEqual([1, 3, 1, 2])
  })

  test.each([
    { seed: 1, pointer: null },
    { seed: 2, pointer: '/payload/k' },
  ])(
    'keeps its order whichever way each of its events goes (seed $seed, by $pointer)',
    async ({ seed, pointer }) => {
      const { hub } = await hubs.open({ pollMs: 5 })
      const random = randomOf(seed)
      const lanes = new Map<string, { seen: number[]; isOut: boolean }>()
      const faults: string[] = []
      const retry = { kind: 'fixed', delayMs: 10, failuresMax: 50 } as const
      const options = { ...inMemory, retry, concurrency: 4, ...(pointer && { orderingKey: pointer }) }
      hub.on('t', options, async ({ payload }) => {
        const { n, k } = payload as { n: number; k: string }
        const lane = lanes.get(k) as { seen: number[]; isOut: boolean }
        if (lane.isOut) faults.push(`${k} is out twice`)
        lane.isOut = true
        await new Promise(setImmediate)
        lane.isOut = false
        if (random() < 0.1) throw new Error('not yet')
        lane.seen.push(n)
      })
      await hub.start()
      const durabilities = new Set<string>()
      for (let n = 0; n < 400; n++) {
        const k = `k${Math.floor(random() * 4)}`
        if (!lanes.has(k)) lanes.set(k, { seen: [], isOut: false })
        const more = {
          ...(random() < 0.1 && { idempotencyKey: `i${n}` }),
          ...(pointer === null && { orderingKey: k }),
        }
        durabilities.add((await hub.publish({ ...toEvent({ n, k }), ...more })).durability)
      }
      const seen = () => [...lanes.values()].reduce((sum, lane) => sum + lane.seen.length, 0)
      await eventually('all are done', () => seen() >= 400)
      expect(faults).toEqual([])
      for (const lane of lanes.values()) expect(lane.seen).toEqual([...lane.seen].sort((a, b) => a - b))
      expect(durabilities.size).toBe(2)
    },
  )
})

describe('a burial', () => {
  test('is durable, with its event, its record and its reason, and redriven it comes back', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    const told: unknown[] = []
    hub.events.on('buried', (burial) => told.push(burial))
    hub.on('t', { ...inMemory, retry: { failuresMax: 1 } }, ({ payload }, { number }) => {
      seen.push([payload, number])
      if (number === 1) throw new Error('no good')
    })
    await hub.start()
    const { id } = await hub.publish({ ...inLane({ n: 1 }), title: 'T' })
    await drain()
    const [letter] = (await hub.deadLetters()).deadLetters
    expect(letter).toMatchObject({ eventId: id, attempts: 1, failures: 1, kind: 'buried' })
    expect(letter?.reason).toContain('no good')
    expect(told).toMatchObject([{ subscription: 'm', eventId: id }])
    const details = await hub.event(id, { logs: true })
    expect(details).toMatchObject({ progress: { status: 'FAILED' }, event: { title: 'T', orderingKey: 'k' } })
    expect(details?.logs.map(({ action }) => action)).toContain('FAILED')
    expect(hub.memory.views[0]?.depth).toBe(0)

    await hub.redrive([letter?.id as string])
    await drain()
    expect(seen).toEqual([
      [{ n: 1 }, 1],
      [{ n: 1 }, 2],
    ])
  })

  test('of an event that two memory queues are owed is one for each', async () => {
    const { hub, drain } = await hubs.open()
    hub.on('t', inMemory, (_, attempt) => attempt.bury('a'))
    hub.on('t', { ...inMemory, name: 'n' }, (_, attempt) => attempt.bury('b'))
    await hub.start()
    const { id } = await hub.publish(toEvent(1))
    await drain()
    const { deadLetters: letters } = await hub.deadLetters()
    expect(letters.map(({ eventId, reason }) => [eventId, reason]).sort()).toEqual([
      [id, 'a'],
      [id, 'b'],
    ])
    expect((await hub.event(id))?.deliveries).toHaveLength(2)
  })
})

describe('an effect in the caller’s own transaction', () => {
  test('happens with the settlement or not at all', async () => {
    const { hub, drain, clock } = await hubs.open({ schema: 'effects' })
    const pool = new pg.Pool(hubs.connection)
    await pool.query('create table effects.effect (n int)')
    hub.on('t', inMemory, async ({ payload }, attempt) => {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await client.query('insert into effects.effect values ($1)', [payload])
        await attempt.completeIn(client)
        await client.query(attempt.number === 1 && payload === 2 ? 'rollback' : 'commit')
      } finally {
        client.release()
      }
      // What is thrown after the commit changes nothing.
      if (payload === 3) throw new Error('too late')
    })
    await hub.start()
    await hub.publishMany([1, 2, 3].map(toEvent))
    await drain()
    const effects = async () =>
      (await pool.query('select n from effects.effect order by n')).rows.map(({ n }) => n)
    expect(await effects()).toEqual([1, 3])
    await clock.advance(60_000)
    await drain()
    expect(await effects()).toEqual([1, 2, 3])
    expect(hub.memory.views[0]?.depth).toBe(0)
    await pool.end()
  })

  test('is seen by the next start, though nothing was persisted after it', async () => {
    const { hub } = await hubs.open({ schema: 'tx_seen' })
    const pool = new pg.Pool(hubs.connection)
    const committed = createSignal()
    hub.on('t', { ...inMemory, concurrency: 2 }, async ({ payload }, attempt) => {
      if (payload === 1) return new Promise(() => undefined)
      const client = await pool.connect()
      await client.query('begin')
      await hub.memory.persist()
      await attempt.completeIn(client)
      await client.query('commit')
      client.release()
      committed.give()
      return new Promise(() => undefined)
    })
    await hub.start()
    await hub.publishMany([1, 2].map(toEvent))
    await committed.given
    // Another takes over, as if this process had vanished.
    await pool.query('update tx_seen.memory_queues set held_until = now()')
    const other = await hubs.open({ schema: 'tx_seen' })
    const again: unknown[] = []
    other.hub.on('t', inMemory, ({ payload }) => void again.push(payload))
    await other.hub.start()
    await other.drain()
    expect(again).toEqual([1])
    await pool.end()
  })
})

describe('a queue that is', () => {
  test('paused takes what is published, and begins nothing until it is resumed', async () => {
    const { hub, drain } = await hubs.open({ schema: 'paused' })
    const client = new pg.Client(hubs.connection)
    await client.connect()
    const seen: unknown[] = []
    hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
    await hub.start()
    const statusOf = () => hub.memory.views[0]?.subscription.status
    await client.query(`update paused.subscriptions set status = 'paused' where name = 'm'`)
    await eventually('it is known here', () => statusOf() === 'paused')
    expect(await hub.publish(toEvent(1))).toMatchObject({ durability: 'process' })
    expect(hub.memory.views[0]).toMatchObject({ depth: 1, figures: { waiting: 1, leased: 0 } })
    await client.query(`update paused.subscriptions set status = 'active' where name = 'm'`)
    await eventually('it ran', () => seen.length === 1)
    await drain()
    await client.end()
  })

  test('draining finishes what waits, and refuses what nobody else is owed', async () => {
    const { hub, drain } = await hubs.open({ schema: 'draining' })
    const client = new pg.Client(hubs.connection)
    await client.connect()
    const held = createSignal()
    const seen: unknown[] = []
    hub.on('t', { ...inMemory, concurrency: 1 }, async ({ payload }) => {
      await held.given
      seen.push(payload)
    })
    await hub.start()
    await hub.publishMany([1, 2].map(toEvent))
    await client.query(`update draining.subscriptions set status = 'draining' where name = 'm'`)
    await expect(hub.publish(toEvent(3))).rejects.toMatchObject({ code: 'QUEUE_DRAINING' })
    held.give()
    await drain()
    expect(seen).toEqual([1, 2])
    await client.end()
  })
})

/** The same chances for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff
    return state / 0x8000_0000
  }
}
