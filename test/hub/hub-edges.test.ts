import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal } from '../support/signal.ts'

const hubs = useHubs('hub_edges')

test('odd arguments of snooze and bury harm nobody', async () => {
  const { hub, clock, drain } = await hubs.open()
  const done: unknown[] = []
  hub.on('t', { name: 'n', concurrency: 1, retry: { baseMs: 1_000, jitter: 0 } }, (event, attempt) => {
    if (attempt.number > 1) return void done.push(event.payload)
    if (event.payload === 'fraction') attempt.snooze(1.5)
    if (event.payload === 'nothing') attempt.snooze(Number.NaN)
    if (event.payload === 'negative') attempt.snooze(-5)
    if (event.payload === 'nul') attempt.bury('a\0b\ud800')
    if (event.payload === 'no reason') attempt.bury(undefined as unknown as string)
    if (event.payload === 'plain') done.push('plain')
  })
  await hub.start()
  const odd = ['fraction', 'nothing', 'negative', 'nul', 'no reason', 'plain']
  await hub.publishMany(odd.map((payload) => ({ type: 't', payload })))
  await drain()
  await clock.advance(2_000)
  await drain()
  expect(done.sort()).toEqual(['fraction', 'negative', 'nothing', 'plain'])
  expect((await hub.deadLetters()).deadLetters.map((letter) => letter.reason).sort()).toEqual([
    'a\uFFFDb\uFFFD',
    'undefined',
  ])
})

test('a listener that throws changes nothing', async () => {
  const { hub, drain } = await hubs.open()
  const seen: unknown[] = []
  hub.on('t', { name: 'n' }, (event) => void seen.push(event.payload))
  for (const name of ['published', 'settled'] as const) {
    hub.events.on(name, () => {
      throw new Error('a bad listener')
    })
  }
  await hub.start()
  const keyed = Array.from({ length: 20 }, (_, n) => ({ type: 't', payload: n, orderingKey: 'k' }))
  await hub.publishMany(keyed)
  await hub.publish({ type: 't', payload: 'last' })
  await drain()
  expect(seen.filter((payload) => payload !== 'last')).toEqual(keyed.map(({ payload }) => payload))
  expect((await hub.listEvents({ status: 'COMPLETED' })).total).toBe(21)
})

test('a running attempt is told that it was cancelled, and is not tried again', async () => {
  const { hub, drain } = await hubs.open()
  const begun = createSignal()
  let attempts = 0
  hub.on('t', { name: 'n', leaseMs: 1_000 }, async (_, attempt) => {
    attempts++
    begun.give()
    await new Promise((_resolve, reject) =>
      attempt.signal.addEventListener('abort', () => reject(attempt.signal.reason)),
    )
  })
  await hub.start()
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await begun.given
  expect(await hub.cancel([id])).toMatchObject([{ told: true }])
  await drain()
  expect((await hub.event(id))?.progress.status).toBe('CANCELLED')
  expect(attempts).toBe(1)
})

test('keyed events that nobody works on expire all the same', async () => {
  const { hub, clock } = await hubs.open()
  await hub.subscribe('t', { name: 'idle' })
  const expiresAt = new Date(Date.now() + 60_000)
  const { id } = await hub.publish({ type: 't', payload: 1, orderingKey: 'k', expiresAt })
  await clock.advance(61_000)
  expect((await hub.event(id))?.progress.status).toBe('EXPIRED')
})

test('a key held by an open transaction keeps only its own publisher waiting', async () => {
  const { hub } = await hubs.open()
  const { default: pg } = await import('pg')
  const client = new pg.Client(hubs.connection)
  await client.connect()
  await client.query('begin')
  await hub.publish({ type: 't', payload: 1, idempotencyKey: 'held' }, { tx: client })
  let waited = true
  const waiting = hub.publish({ type: 't', payload: 1, idempotencyKey: 'held' }).finally(() => {
    waited = false
  })
  await Promise.all(Array.from({ length: 50 }, (_, n) => hub.publish({ type: 't', payload: n })))
  expect(waited).toBe(true)
  await client.query('commit')
  expect(await waiting).toMatchObject({ replayed: true })
  await client.end()
})

test('starting and stopping twice is doing it once, and a stopped hub says so', async () => {
  const { hub } = await hubs.open()
  hub.on('t', { name: 'n' }, () => undefined)
  await Promise.all([hub.start(), hub.start()])
  await Promise.all([hub.stop(), hub.stop()])
  await hub.stop()
  await expect(hub.start()).rejects.toMatchObject({ code: 'STOPPED' })
  await expect(hub.publish({ type: 't', payload: 1 })).rejects.toMatchObject({ code: 'STOPPED' })
})
