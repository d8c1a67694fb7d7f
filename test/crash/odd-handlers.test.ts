import { describe, expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal } from '../support/signal.ts'

const hubs = useHubs('odd_handlers')

describe('a handler that never returns', () => {
  test('loses its slot and its lease when its time is up, and is told so', async () => {
    const { hub, drain } = await hubs.open({ upkeep: true })
    const told = createSignal()
    const seen: unknown[] = []
    const options = { name: 'n', concurrency: 1, timeoutMs: 300, leaseMs: 1_000, retry: { failuresMax: 1 } }
    hub.on('t', options, (event, attempt) => {
      seen.push(event.payload)
      if (event.payload !== 'stuck') return
      attempt.signal.addEventListener('abort', told.give)
      return new Promise(() => undefined)
    })
    await hub.start()
    const stuck = await hub.publish({ type: 't', payload: 'stuck', orderingKey: 'a' })
    await hub.publish({ type: 't', payload: 'behind it', orderingKey: 'a' })
    await hub.publish({ type: 't', payload: 'free' })
    await told.given
    await drain()
    expect(seen.toSorted()).toEqual(['behind it', 'free', 'stuck'])
    const { deadLetters } = await hub.deadLetters({})
    expect(deadLetters).toMatchObject([
      { eventId: stuck.id, reason: 'The handler did not return within 300 ms' },
    ])
  })
})

describe('whatever a handler throws', () => {
  const circular: Record<string, unknown> = { name: 'circular' }
  circular.itself = circular
  const hostile = {
    toString: () => {
      throw new Error('no text')
    },
    toJSON: () => {
      throw new Error('no JSON')
    },
    get message() {
      throw new Error('no message')
    },
  }
  const oddities: [what: string, thrown: unknown][] = [
    ['undefined', undefined],
    ['null', null],
    ['a number', 0],
    ['a symbol', Symbol('odd')],
    ['a circular object', circular],
    ['an object that throws when it is read', hostile],
    [
      'an error that throws when it is read',
      Object.defineProperty(new Error('x'), 'message', { get: hostile.toString }),
    ],
    ['a proxy that refuses everything', refusing()],
    ['NUL and a lone surrogate', new Error('a\u0000b\ud800c')],
    ['a megabyte', new Error('x'.repeat(1_048_576))],
    ['an error that causes itself', causingItself()],
  ]

  test('counts as one failure of its own delivery, and of no other in its batch', async () => {
    const { hub, clock, drain } = await hubs.open()
    const retried = new Set<unknown>()
    const retry = { baseMs: 1_000, maxMs: 1_000, jitter: 0, failuresMax: 3 }
    hub.on('t', { name: 'n', concurrency: 50, retry }, (event, attempt) => {
      const odd = oddities[event.payload as number]
      if (odd === undefined) return
      if (attempt.number === 1) throw odd[1]
      expect(attempt.failures).toBe(1)
      retried.add(odd[0])
    })
    await hub.start()
    const innocents = 40
    const payloads = Array.from({ length: oddities.length + innocents }, (_, n) => n)
    const published = await hub.publishMany(payloads.map((payload) => ({ type: 't', payload })))
    await drain()
    await clock.advance(1_100)
    await drain()
    expect([...retried].toSorted()).toEqual(oddities.map(([what]) => what).toSorted())
    const statuses = await Promise.all(
      published.map(async ({ id }) => (await hub.event(id))?.progress.status),
    )
    expect(new Set(statuses)).toEqual(new Set(['COMPLETED']))
    process.stdout.write(
      `crash: odd handlers: ${oddities.length} odd throws, ${innocents} innocents in the batch\n`,
    )
  })
})

function refusing(): object {
  const refuse = () => {
    throw new Error('refused')
  }
  return new Proxy({}, { get: refuse, getPrototypeOf: refuse, ownKeys: refuse, has: refuse })
}

function causingItself(): Error {
  const error = new Error('itself')
  error.cause = error
  return error
}
