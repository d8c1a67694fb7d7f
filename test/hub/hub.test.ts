import pg from 'pg'
import { describe, expect, test } from 'vitest'
import type { StoredEvent } from '../../src/domain/stored-event.ts'
import { PosthornError } from '../../src/errors.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal } from '../support/signal.ts'

const hubs = useHubs('hub')

describe('publishing and handling', () => {
  test('a handler gets the event with its payload, once', async () => {
    const { hub, drain } = await hubs.open()
    const seen: StoredEvent[] = []
    hub.on('order.created', { name: 'receipt' }, (event) => void seen.push(event))
    await hub.start()
    const { id, deliveries } = await hub.publish({
      type: 'order.created',
      payload: { total: 12 },
      correlationId: 'c1',
    })
    await drain()
    expect(deliveries).toBe(1)
    expect(seen.map((event) => [event.id, event.payload, event.correlationId])).toEqual([
      [id, { total: 12 }, 'c1'],
    ])
  })

  test('every subscription that matches is owed the event, and no other', async () => {
    const { hub, drain } = await hubs.open()
    const seen: string[] = []
    const note = (name: string) => (event: StoredEvent) => void seen.push(`${name} ${event.type}`)
    hub.on('order.created', { name: 'exact' }, note('exact'))
    hub.on('order.*', { name: 'prefix' }, note('prefix'))
    hub.on('*', { name: 'all' }, note('all'))
    hub.on('order.*', { name: 'tagged', tags: ['eu'] }, note('tagged'))
    hub.on('invoice.*', { name: 'other' }, note('other'))
    await hub.start()
    await hub.publish({ type: 'order.created', payload: 1 })
    await hub.publish({ type: 'order', payload: 2 })
    await hub.publish({ type: 'order.line.added', payload: 3, tags: 'us, eu' })
    await drain()
    expect(seen.sort()).toEqual(
      [
        'all order',
        'all order.created',
        'all order.line.added',
        'exact order.created',
        'prefix order.created',
        'prefix order.line.added',
        'tagged order.line.added',
      ].sort(),
    )
  })

  test('the payload keeps its bytes', async () => {
    const { hub, drain } = await hubs.open()
    const text = '{ "a" : 1, "a":12345678901234567890, "b": [1e400, "\\u0000\\ud800"], "c":"\\\\ \\" {,}" }'
    let seen: string | undefined
    hub.on('t', { name: 'n' }, (event) => {
      seen = event.payloadText
    })
    await hub.start()
    await hub.publish({ type: 't', payloadText: text })
    await drain()
    expect(seen).toBe(text)
  })

  test('an event that nobody wants is completed without a delivery, or buried when a route is required', async () => {
    const { hub } = await hubs.open()
    expect((await hub.publish({ type: 'nobody', payload: null })).deliveries).toBe(0)
    await hub.publish({ type: 'nobody', payload: null, requireRoute: true })
    const letters = await hub.deadLetters({})
    expect(letters.deadLetters.map((letter) => letter.reason)).toEqual(['no_handler'])
  })
})

describe('retrying', () => {
  test('a throw is retried after the backoff and counted', async () => {
    const { hub, clock, drain } = await hubs.open()
    const attempts: number[] = []
    hub.on('t', { name: 'n', retry: { baseMs: 60_000, jitter: 0, failuresMax: 3 } }, (_, attempt) => {
      attempts.push(attempt.number)
      throw new Error('no')
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await drain()
    expect(attempts).toEqual([1])
    await clock.advance(40_000)
    await drain()
    expect(attempts).toEqual([1])
    await clock.advance(21_000)
    await drain()
    expect(attempts).toEqual([1, 2])
    await clock.advance(121_000)
    await drain()
    expect(attempts).toEqual([1, 2, 3])
    await clock.advance(100_000)
    await drain()
    expect(attempts).toEqual([1, 2, 3])
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'FAILED', retryCount: 3 })
  })

  test('snooze counts no failure, bury gives up at once', async () => {
    const { hub, clock, drain } = await hubs.open()
    const seen: [number, number][] = []
    hub.on('t', { name: 'n' }, (_, attempt) => {
      seen.push([attempt.number, attempt.failures])
      if (attempt.number < 3) attempt.snooze(1_000)
      else attempt.bury('enough')
    })
    await hub.start()
    await hub.publish({ type: 't', payload: 1 })
    await drain()
    await clock.advance(1_000)
    await drain()
    await clock.advance(1_000)
    await drain()
    expect(seen).toEqual([
      [1, 0],
      [2, 0],
      [3, 0],
    ])
    const { deadLetters } = await hub.deadLetters({})
    expect(deadLetters.map((letter) => letter.reason)).toEqual(['enough'])
  })

  test('a redriven dead letter has a fresh budget', async () => {
    const { hub, drain } = await hubs.open()
    let broken = true
    const attempts: number[] = []
    hub.on('t', { name: 'n', retry: { failuresMax: 1 } }, (_, attempt) => {
      attempts.push(attempt.number)
      if (broken) throw new Error('no')
    })
    await hub.start()
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await drain()
    broken = false
    const { deadLetters } = await hub.deadLetters({})
    expect(await hub.redrive(deadLetters.map((letter) => letter.id))).toHaveLength(1)
    expect(await hub.redrive(deadLetters.map((letter) => letter.id))).toHaveLength(0)
    await drain()
    expect(attempts).toEqual([1, 2])
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED' })
  })
})

describe('lanes', () => {
  test('a failed delivery holds back the rest of its lane, and no other', async () => {
    const { hub, clock, drain } = await hubs.open()
    const seen: unknown[] = []
    let broken = true
    hub.on('t', { name: 'n', concurrency: 4, retry: { baseMs: 1_000, jitter: 0 } }, (event) => {
      seen.push(event.payload)
      if (broken && event.payload === 'a1') throw new Error('no')
    })
    await hub.start()
    await hub.publishMany(
      ['a1', 'a2', 'b1', 'a3', 'b2'].map((payload) => ({
        type: 't',
        payload,
        orderingKey: payload[0] as string,
      })),
    )
    await drain()
    expect(seen.filter((one) => String(one).startsWith('a'))).toEqual(['a1'])
    expect(seen.filter((one) => String(one).startsWith('b'))).toEqual(['b1', 'b2'])
    broken = false
    await hub.publish({ type: 't', payload: 'a4', orderingKey: 'a' })
    await clock.advance(1_000)
    await drain()
    expect(seen.filter((one) => String(one).startsWith('a'))).toEqual(['a1', 'a1', 'a2', 'a3', 'a4'])
  })

  test('a buried head lets its lane go on, or blocks it until an operator decides', async () => {
    for (const verb of ['retry', 'skip', 'discard'] as const) {
      const { hub, drain } = await hubs.open()
      const seen: unknown[] = []
      let broken = true
      const options = { name: 'n', onExhausted: 'block', retry: { failuresMax: 1 } } as const
      hub.on('t', options, (event) => {
        seen.push(event.payload)
        if (broken && event.payload === 1) throw new Error('no')
      })
      await hub.start()
      await hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload, orderingKey: 'a' })))
      await drain()
      expect(seen).toEqual([1])
      broken = false
      await hub.unblock('n', 'a', verb)
      await drain()
      expect(seen).toEqual(verb === 'retry' ? [1, 1, 2, 3] : [1, 2, 3])
      expect((await hub.deadLetters({})).deadLetters).toHaveLength(verb === 'skip' ? 1 : 0)
      await expect(hub.unblock('n', 'a', verb)).rejects.toMatchObject({ code: 'NOT_BLOCKED' })
    }
  })

  test('a delayed event enters its lane when due, and does not hold it up', async () => {
    const { hub, clock, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { name: 'n' }, (event) => void seen.push(event.payload))
    await hub.start()
    const soon = new Date(Date.now() + 60_000)
    await hub.publish({ type: 't', payload: 'later', orderingKey: 'a', runAt: soon })
    await hub.publish({ type: 't', payload: 'free later', runAt: soon })
    await hub.publish({ type: 't', payload: 'now', orderingKey: 'a' })
    await drain()
    expect(seen).toEqual(['now'])
    await clock.advance(61_000)
    await drain()
    expect(seen.sort()).toEqual(['free later', 'later', 'now'])
  })
})

describe('expiry and cancelling', () => {
  test('what outlives its time is ended, listed and alerted, and frees its lane', async () => {
    const { hub, clock, drain } = await hubs.open()
    const seen: unknown[] = []
    const alerts: unknown[] = []
    hub.on('t', { name: 'n', retry: { baseMs: 600_000, maxMs: 600_000 } }, (event) => {
      seen.push(event.payload)
      if (event.payload === 1) throw new Error('no')
    })
    hub.on('posthorn.delivery.expired', { name: 'ops' }, (event) => void alerts.push(event.payload))
    await hub.start()
    const expiresAt = new Date(Date.now() + 60_000)
    const first = await hub.publish({ type: 't', payload: 1, orderingKey: 'a', expiresAt })
    await hub.publish({ type: 't', payload: 2, orderingKey: 'a', expiresAt })
    await hub.publish({ type: 't', payload: 3, orderingKey: 'a' })
    await drain()
    expect(seen).toEqual([1])
    await clock.advance(61_000)
    await drain()
    expect(seen).toEqual([1, 3])
    expect((await hub.event(first.id))?.progress).toMatchObject({ status: 'EXPIRED' })
    expect((await hub.deadLetters({})).deadLetters.map((letter) => letter.kind)).toEqual([
      'expired',
      'expired',
    ])
    await expect.poll(() => alerts.length).toBe(2)
  })

  test('cancelling ends what waits, in runs and lanes alike', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { name: 'n' }, (event) => void seen.push(event.payload))
    await hub.start()
    const runAt = new Date(Date.now() + 3_600_000)
    const ids = (
      await hub.publishMany([
        { type: 't', payload: 1, runAt },
        { type: 't', payload: 2, runAt, orderingKey: 'a' },
      ])
    ).map((event) => event.id)
    expect((await hub.cancel(ids)).map(({ told }) => told)).toEqual([false, false])
    expect(await hub.cancel(ids)).toEqual([])
    for (const id of ids) expect((await hub.event(id))?.progress).toMatchObject({ status: 'CANCELLED' })
    await drain()
    expect(seen).toEqual([])
  })

  test('unsubscribing cancels what waits', async () => {
    const { hub } = await hubs.open({ upkeep: true })
    await hub.subscribe('t', { name: 'gone' })
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await hub.unsubscribe('gone')
    expect((await hub.publish({ type: 't', payload: 1 })).deliveries).toBe(0)
    await hub.start()
    await expect
      .poll(async () => (await hub.event(id))?.progress.status, { timeout: 60_000 })
      .toBe('CANCELLED')
  })
})

describe('idempotent publish', () => {
  test('64 parallel publishes with one key make one event', async () => {
    const { hub } = await hubs.open()
    const one = () => hub.publish({ type: 't', payload: 1, idempotencyKey: 'k' })
    const answers = await Promise.all(Array.from({ length: 64 }, one))
    expect(new Set(answers.map((answer) => answer.id)).size).toBe(1)
    expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1)
    await expect(hub.publish({ type: 't', payload: 2, idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
    })
  })

  test('a key whose first publish rolled back is free again', async () => {
    const { hub } = await hubs.open()
    const client = new pg.Client(hubs.connection)
    await client.connect()
    await client.query('begin')
    const first = await hub.publish({ type: 't', payload: 1, idempotencyKey: 'k' }, { tx: client })
    const second = hub.publish({ type: 't', payload: 1, idempotencyKey: 'k' })
    await client.query('rollback')
    expect(await second).toMatchObject({ replayed: false })
    expect((await second).id).not.toBe(first.id)
    await client.end()
  })

  test('publishMany stores nothing when one key belongs to another event', async () => {
    const { hub } = await hubs.open()
    await hub.publish({ type: 't', payload: 1, idempotencyKey: 'k' })
    const many = [
      { type: 't', payload: 'x', idempotencyKey: 'fresh' },
      { type: 't', payload: 2, idempotencyKey: 'k' },
    ]
    await expect(hub.publishMany(many)).rejects.toThrow(PosthornError)
    expect((await hub.listEvents({})).events).toHaveLength(1)
  })
})

describe('the caller’s transaction', () => {
  test('an event exists if and when the transaction commits', async () => {
    const { hub, drain } = await hubs.open()
    const seen: unknown[] = []
    hub.on('t', { name: 'n' }, (event) => void seen.push(event.payload))
    await hub.start()
    const client = new pg.Client(hubs.connection)
    await client.connect()
    await client.query('begin')
    await hub.publish({ type: 't', payload: 'never' }, { tx: client })
    await client.query('rollback')
    await client.query('begin')
    await hub.publish({ type: 't', payload: 'late' }, { tx: client })
    await hub.publish({ type: 't', payload: 'early' })
    await drain()
    expect(seen).toEqual(['early'])
    await client.query('commit')
    await drain()
    expect(seen).toEqual(['early', 'late'])
    await client.end()
  })

  test('completeIn commits the effect and the settlement together', async () => {
    const { hub, drain } = await hubs.open()
    const pool = new pg.Pool({ ...hubs.connection, max: 4 })
    await pool.query('create table if not exists effects (event_id bigint)')
    const failing = new Set([2, 5])
    hub.on('t', { name: 'n', concurrency: 4, retry: { baseMs: 1, maxMs: 1 } }, async (event, attempt) => {
      const client = await pool.connect()
      try {
        await client.query('begin')
        await client.query('insert into effects values ($1)', [event.id])
        await attempt.completeIn(client)
        if (failing.delete(event.payload as number)) throw new Error('after completing')
        await client.query('commit')
      } catch (error) {
        await client.query('rollback')
        throw error
      } finally {
        client.release()
      }
    })
    await hub.start()
    const many = Array.from({ length: 20 }, (_, n) => ({
      type: 't',
      payload: n,
      ...(n % 2 ? { orderingKey: 'a' } : {}),
    }))
    await hub.publishMany(many)
    await expect
      .poll(async () => (await pool.query('select 1 from effects')).rowCount, { timeout: 60_000 })
      .toBe(20)
    await drain()
    const { rows } = await pool.query('select count(distinct event_id)::int as n from effects')
    expect(rows[0].n).toBe(20)
    await pool.end()
  })
})

describe('poll and finalize', () => {
  test('poll leases one, finalize ends it, and both are idempotent', async () => {
    const { hub } = await hubs.open()
    const a = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    const b = await hub.publish({ title: 'b', tags: 'y', payload: 2 })
    expect((await hub.poll({ tags: ['y'] }))?.id).toBe(b.id)
    expect((await hub.poll())?.id).toBe(a.id)
    expect(await hub.poll()).toBeNull()
    expect((await hub.event(a.id))?.progress).toMatchObject({ status: 'PROCESSING' })
    await hub.finalize(a.id)
    await hub.finalize(a.id)
    await hub.finalize(b.id, ['bad', 'worse'])
    expect((await hub.event(a.id))?.progress).toMatchObject({ status: 'COMPLETED' })
    expect((await hub.event(b.id))?.progress).toMatchObject({ status: 'COMPLETED_WITH_ERRORS' })
  })

  test('a lease that ran out is leased again, and the old holder is refused', async () => {
    const { hub, clock } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    await clock.advance(61_000)
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'PENDING', retryCount: 1 })
    const other = await hubs.open()
    expect(other).toBeDefined()
    expect((await hub.poll())?.id).toBe(id)
    await hub.reset(id, 'worker_timeout')
    await expect(hub.finalize(id)).rejects.toMatchObject({ code: 'LEASE_LOST' })
  })

  test('settling after expiry counts until somebody else has leased', async () => {
    const { hub, clock } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    await clock.advance(61_000)
    await hub.finalize(id)
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED' })
    expect(await hub.poll()).toBeNull()
  })
})

describe('limits', () => {
  test('max_concurrency and the limit per concurrency key hold', async () => {
    const { hub, drain } = await hubs.open()
    let running = 0
    let most = 0
    const perKey = new Map<string, number>()
    let mostPerKey = 0
    hub.on('t', { name: 'n', concurrency: 20, maxConcurrency: 3, keyConcurrency: 2 }, async (event) => {
      const key = event.concurrencyKey as string
      most = Math.max(most, ++running)
      perKey.set(key, (perKey.get(key) ?? 0) + 1)
      mostPerKey = Math.max(mostPerKey, perKey.get(key) as number)
      await new Promise((resolve) => setTimeout(resolve, 5))
      perKey.set(key, (perKey.get(key) as number) - 1)
      running--
    })
    await hub.start()
    await hub.publishMany(
      Array.from({ length: 60 }, (_, n) => ({ type: 't', payload: n, concurrencyKey: `k${n % 2}` })),
    )
    await expect
      .poll(async () => (await hub.listEvents({ status: 'COMPLETED' })).total, { timeout: 60_000 })
      .toBe(60)
    await drain()
    expect(most).toBe(3)
    expect(mostPerKey).toBe(2)
  })
})

describe('stopping', () => {
  test('a graceful stop hands back what has not ended, uncounted', async () => {
    const { hub } = await hubs.open({ schema: 'stopping' })
    const begun = createSignal()
    hub.on('t', { name: 'n', concurrency: 2 }, async (_, attempt) => {
      begun.give()
      await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve))
      throw new Error('aborted')
    })
    await hub.start()
    await hub.publishMany(Array.from({ length: 50 }, (_, n) => ({ type: 't', payload: n })))
    await begun.given
    await hub.stop({ graceMs: 50 })
    const { hub: again, drain } = await hubs.open({ schema: 'stopping' })
    const attempts: number[] = []
    again.on('t', { name: 'n' }, (_, attempt) => void attempts.push(attempt.number))
    await again.start()
    await drain()
    expect(attempts).toHaveLength(50)
    expect(new Set(attempts)).toEqual(new Set([1]))
  })
})
