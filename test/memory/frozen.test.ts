import { afterEach, expect, test, vi } from 'vitest'
import { Hold } from '../../src/memory/hold.ts'
import { Persister } from '../../src/memory/persister.ts'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_frozen')
const inMemory = { name: 'm', storage: 'memory', concurrency: 1 } as const
const claimMs = 5_000

afterEach(() => {
  vi.restoreAllMocks()
})

/** What a frozen process sees when it goes on: its timers did not fire, and the monotonic clock is far ahead. */
function freeze(): void {
  vi.spyOn(Persister.prototype, 'tick').mockImplementation(() => undefined)
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + claimMs)
}

/** A hub whose first attempt is under way while the others wait in the hands of the runner. */
async function openOwner(schema: string, orderingKey: string | null) {
  const owner = await hubs.open({ schema })
  const first = createSignal()
  const begun: unknown[] = []
  owner.hub.on('t', inMemory, async ({ payload }) => {
    begun.push(payload)
    await first.given
  })
  await owner.hub.start()
  const payloads = [1, 2, 3, 4, 5, 6]
  await owner.hub.publishMany(payloads.map((payload) => ({ type: 't', payload, orderingKey })))
  await eventually('the first has begun', () => begun.length === 1)
  await owner.hub.memory.persist()
  return { ...owner, begun, first }
}

async function settleFirst({ hub, first }: { hub: TestPosthorn['hub']; first: { give(): void } }) {
  const settled = new Promise((resolve) => hub.events.once('settled', resolve))
  first.give()
  await settled
  // What may begin has begun by the end of the turn that settled the one before.
  await new Promise(setImmediate)
}

test.each(['k', null])(
  'an owner that was frozen past its claim begins nothing of what it holds (key %s)',
  async (key) => {
    const owner = await openOwner(`frozen_${key}`, key)
    freeze()
    const successor = await hubs.open({ schema: `frozen_${key}` })
    await successor.clock.advance(claimMs)
    const seen: unknown[] = []
    successor.hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
    await successor.hub.start()
    await settleFirst(owner)
    expect(owner.begun).toEqual([1])
    await eventually('the successor has run all', () => seen.length === 6)
    expect(seen).toEqual([1, 2, 3, 4, 5, 6])
    await owner.hub.memory.persist()
    expect(owner.hub.memory.views).toEqual([])
    expect(owner.begun).toEqual([1])
  },
)

test.each(['k', null])(
  'an owner that was frozen goes on in order once its claim is renewed (key %s)',
  async (key) => {
    const owner = await openOwner(`renewed_${key}`, key)
    freeze()
    await settleFirst(owner)
    expect(owner.begun).toEqual([1])
    await owner.hub.memory.persist()
    await eventually('all have begun', () => owner.begun.length === 6)
    expect(owner.begun).toEqual([1, 2, 3, 4, 5, 6])
  },
)

test('the check can be taken out, and then the owner begins what is its successor’s', async () => {
  vi.spyOn(Hold.prototype, 'isOurs').mockReturnValue(true)
  const owner = await openOwner('unchecked', null)
  freeze()
  await settleFirst(owner)
  expect(owner.begun.length).toBeGreaterThan(1)
})

test('what is published to a queue whose claim may have ended is stored', async () => {
  const { hub } = await openOwner('published', null)
  expect(await hub.publish({ type: 't', payload: 7 })).toMatchObject({ durability: 'process' })
  freeze()
  expect(await hub.publish({ type: 't', payload: 8 })).toMatchObject({ durability: 'durable' })
})
