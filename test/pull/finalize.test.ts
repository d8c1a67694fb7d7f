import { describe, expect, test } from 'vitest'
import type { TestPosthorn } from '../../src/testing/index.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('finalize')
const leaseLost = { code: 'LEASE_LOST', status: 409 }
const once = { kind: 'fixed', delayMs: 1_000, failuresMax: 1 } as const

describe('finalizing twice', () => {
  test.each([
    { first: [], second: ['x'], status: 'COMPLETED' },
    { first: ['x'], second: [], status: 'COMPLETED_WITH_ERRORS' },
  ])('a settled event stays $status', async ({ first, second, status }) => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    await hub.finalize(id, first)
    await hub.finalize(id, first)
    await expect(hub.finalize(id, second)).rejects.toMatchObject(leaseLost)
    await hub.finalize(id, first)
    expect((await hub.event(id))?.progress).toMatchObject({ status })
  })

  test('of two at the same moment with different outcomes one is refused', async () => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    const answers = await Promise.allSettled([hub.finalize(id), hub.finalize(id, ['x'])])
    expect(answers.map((answer) => answer.status).sort()).toEqual(['fulfilled', 'rejected'])
    expect((await hub.deadLetters()).total).toBe(answers[1]?.status === 'fulfilled' ? 1 : 0)
  })
})

test.each([{ errors: [] }, { errors: ['x'] }])(
  'what a reclaim has buried cannot be finalized with errors $errors',
  async ({ errors }) => {
    const { hub, clock } = await hubs.open()
    await hub.subscribe('t', { name: 'p', retry: once })
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await hub.poll({ subscription: 'p' })
    await clock.advance(61_000)
    await expect(hub.finalize(id, errors)).rejects.toMatchObject(leaseLost)
    await expect(hub.finalize(id, errors)).rejects.toMatchObject(leaseLost)
    const { deadLetters } = await hub.deadLetters()
    expect(deadLetters.map((letter) => letter.reason)).toEqual(['the lease expired'])
  },
)

describe('an event polled through two subscriptions', () => {
  async function pollTwice() {
    const opened = await hubs.open()
    const { hub } = opened
    for (const name of ['p', 'q']) await hub.subscribe('t', { name })
    const { id } = await hub.publish({ type: 't', payload: 1 })
    await hub.poll({ subscription: 'p' })
    await hub.poll({ subscription: 'q' })
    return { ...opened, id }
  }

  test('each lease can be finalized by its name', async () => {
    const { hub, id } = await pollTwice()
    await hub.finalize(id, [], { subscription: 'p' })
    await hub.finalize(id, ['x'], { subscription: 'q' })
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED_WITH_ERRORS' })
    await hub.finalize(id, [], { subscription: 'p' })
    await expect(hub.finalize(id, ['x'], { subscription: 'p' })).rejects.toMatchObject(leaseLost)
    await expect(hub.finalize(id, [], { subscription: 'other' })).rejects.toMatchObject(leaseLost)
  })

  test('while both are held, one must be named', async () => {
    const { hub, id } = await pollTwice()
    await expect(hub.finalize(id)).rejects.toMatchObject({
      code: 'AMBIGUOUS_LEASE',
      status: 409,
      details: { eventId: id, subscriptions: 'p, q' },
    })
    await hub.finalize(id, [], { subscription: 'q' })
    await hub.finalize(id)
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED' })
  })

  test('a lost lease no longer stands in the way of the other', async () => {
    const { hub, clock } = await hubs.open()
    await hub.subscribe('t', { name: 'brief', retry: once, leaseMs: 1_000 })
    await hub.subscribe('t', { name: 'long' })
    const { id } = await hub.publish({ type: 't', payload: 1 })
    for (const subscription of ['brief', 'long']) await hub.poll({ subscription })
    await clock.advance(2_000)
    await expect(hub.finalize(id, [], { subscription: 'brief' })).rejects.toMatchObject(leaseLost)
    await hub.finalize(id)
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'COMPLETED_WITH_ERRORS' })
  })
})

describe('what callers write', () => {
  test('errors and reasons may hold what PostgreSQL cannot store', async () => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    expect(await hub.reset(id, 'a\0b\ud800')).toBe(1)
    await hub.poll()
    await hub.finalize(id, ['a\0b\ud800', new Error('no'), Object.create(null), 'x'.repeat(10_000)])
    const [letter] = (await hub.deadLetters()).deadLetters
    expect(letter?.reason).toMatch(/^finalized with errors: a\uFFFDb\uFFFD; Error: no/)
    expect(letter?.reason).toHaveLength(4_000)
    const waiting = await hub.publish({ title: 'b', tags: 'x', payload: 1 })
    expect(await hub.cancel([waiting.id], 'a\0b\udfff')).toHaveLength(1)
    expect(JSON.stringify(await hub.event(waiting.id, { logs: true }))).toContain('a\uFFFDb\uFFFD')
  })

  test.each([0, 999, 1_000.5, 43_200_001, Number.NaN, '5000'])(
    'a lease of %s ms is refused',
    async (leaseMs) => {
      const { hub } = await hubs.open()
      const asked = hub.poll({ leaseMs: leaseMs as number })
      await expect(asked).rejects.toMatchObject({ code: 'BAD_OPTION', details: { option: 'leaseMs' } })
    },
  )

  test.each([1_000, 43_200_000])('a lease of %s ms is granted', async (leaseMs) => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    expect((await hub.poll({ leaseMs }))?.id).toBe(id)
  })
})

describe('as a queue of two calls', () => {
  test('a poll that finds nothing gives null', async () => {
    const { hub } = await hubs.open()
    expect(await hub.poll()).toBeNull()
  })

  test('finalizing what was never polled here does nothing, and throws nothing', async () => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.finalize(id)
    await hub.finalize(id, ['x'])
    await hub.finalize(999_999)
    expect((await hub.event(id))?.progress).toMatchObject({ status: 'PENDING' })
    expect((await hub.poll())?.id).toBe(id)
  })

  test('the log of one that was finalized with errors says so', async () => {
    const { hub } = await hubs.open()
    const { id } = await hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await hub.poll()
    await hub.finalize(id, ['x'])
    const logs = (await hub.event(id, { logs: true }))?.logs ?? []
    expect(logs.at(-1)).toMatchObject({ action: 'COMPLETED_WITH_ERRORS' })
    expect(logs.map(({ action }) => action)).not.toContain('FAILED')
  })
})

describe('a stop', () => {
  const finalizers = async (schema: string) => [await hubs.open({ schema }), await hubs.open({ schema })]

  test('hands back what was polled and not finalized, uncounted', async () => {
    const [stopping, other] = (await finalizers('stopping')) as [TestPosthorn, TestPosthorn]
    const { id } = await stopping.hub.publish({ title: 'a', tags: 'x', payload: 1 })
    await stopping.hub.poll()
    await stopping.hub.stop()
    expect((await other.hub.event(id))?.progress).toMatchObject({ status: 'PENDING', retryCount: 0 })
    expect((await other.hub.poll())?.id).toBe(id)
    await other.clock.advance(61_000)
    expect((await other.hub.event(id))?.progress).toMatchObject({ retryCount: 1 })
  })

  test('leaves what was finalized as it is, and hands back what a poll beside it leased', async () => {
    const [stopping, other] = (await finalizers('beside')) as [TestPosthorn, TestPosthorn]
    const [done, open] = await stopping.hub.publishMany(
      ['a', 'b'].map((title) => ({ title, tags: 'x', payload: 1 })),
    )
    await stopping.hub.poll()
    const calls = Promise.all([stopping.hub.finalize(done?.id as number), stopping.hub.poll()])
    await stopping.hub.stop()
    expect((await calls)[1]).toBeNull()
    expect((await other.hub.event(done?.id as number))?.progress).toMatchObject({ status: 'COMPLETED' })
    expect((await other.hub.event(open?.id as number))?.progress).toMatchObject({ status: 'PENDING' })
    await expect(stopping.hub.poll()).rejects.toMatchObject({ code: 'STOPPED' })
  })
})
