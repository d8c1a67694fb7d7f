import { expect, test } from 'vitest'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { dayMs, useKept } from './setup.ts'

const { open } = useKept('delete_on_success')

const succeeded = { kind: 'succeeded' } as const
const failed = { kind: 'failed', reason: 'no', permanent: true } as const

test('an event goes with the settlement of its delivery, its audit stays', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe(['t', 'other'], { name: 'one' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  const other = await hub.publish({ type: 'other', payload: 1 })
  await settleRuns(hub, await leaseRuns(hub, 'one', { limit: 10 }), succeeded)
  await settleRuns(hub, await leaseRuns(hub, 'one', { limit: 10 }), succeeded)
  expect(await hub.event(id)).toBeUndefined()
  expect(await kept.eventIds()).toEqual([other.id])
  expect(await kept.count('audit')).toBe(2)
  await kept.clock.advance(8 * dayMs)
  await hub.prune()
  expect(await kept.count('audit')).toBe(0)
  expect(await kept.count('removals')).toBe(0)
})

test('a repeated publish is answered as the first one also after its event has gone', async () => {
  const { hub } = await open()
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  await hub.subscribe('t', { name: 'two' })
  const event = { type: 't', payload: 1, idempotencyKey: 'k' }
  const first = await hub.publish(event)
  expect(first.deliveries).toBe(2)
  await settleRuns(hub, await leaseRuns(hub, 'one'), { kind: 'snoozed', afterMs: 0 })
  for (const name of ['one', 'two']) await settleRuns(hub, await leaseRuns(hub, name), succeeded)
  expect(await hub.event(first.id)).toBeUndefined()
  expect(await hub.publish(event)).toEqual({ ...first, replayed: true })
})

test('with several deliveries the last one takes it along', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  await hub.subscribe('t', { name: 'two' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  expect(await kept.eventIds()).toEqual([id])
  const runs = await leaseRuns(hub, 'two')
  await settleRuns(hub, runs, { kind: 'snoozed', afterMs: 1_000 })
  expect(await kept.eventIds()).toEqual([id])
  await kept.clock.advance(2_000)
  await settleRuns(hub, await leaseRuns(hub, 'two'), succeeded)
  expect(await kept.eventIds()).toEqual([])
})

test('handlers, lanes and batches leave nothing behind', async () => {
  const kept = await open()
  const { hub } = kept
  let ran = 0
  hub.on('t', { name: 'plain' }, () => void ran++)
  hub.on('t', { name: 'again' }, () => void ran++)
  await hub.start()
  await hub.defineType('t', { keepMs: 0 })
  await hub.publishMany(
    Array.from({ length: 300 }, (_, n) => ({
      ...{ type: 't', payload: n },
      ...(n % 3 === 0 && { orderingKey: `k${n % 7}` }),
    })),
  )
  await kept.drain()
  expect(ran).toBe(600)
  // Two settlements at the same moment may each have missed the other's.
  await hub.prune()
  expect(await kept.eventIds()).toEqual([])
  expect(await kept.count('audit')).toBe(600)
})

test('one that failed stays with its dead letter, and goes when it was redriven and has succeeded', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  await hub.prune()
  expect((await hub.event(id))?.progress.status).toBe('FAILED')
  const [letter] = (await hub.deadLetters()).deadLetters
  await hub.retryDeadLetter(letter?.id as string)
  await settleRuns(hub, await leaseRuns(hub, 'one'), succeeded)
  expect(await hub.event(id)).toBeUndefined()
})

test('one that failed for one subscription stays, though the last delivery succeeds', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  await hub.subscribe('t', { name: 'two' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await settleRuns(hub, await leaseRuns(hub, 'one'), failed)
  await settleRuns(hub, await leaseRuns(hub, 'two'), succeeded)
  await hub.prune()
  expect((await hub.event(id))?.progress.status).toBe('COMPLETED_WITH_ERRORS')
})

test('what two settlements at the same moment have left is taken by the walk', async () => {
  const kept = await open()
  const { hub, db } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  const runs = await leaseRuns(hub, 'one')
  // Whoever holds the event keeps the settlement from removing it, as another settlement would.
  await db.transaction(async (tx) => {
    await tx.query(`select id from ${db.schema}.events where id = $1 for update`, [id])
    await settleRuns(hub, runs, succeeded)
  })
  expect(await kept.eventIds()).toEqual([id])
  await hub.retention.step()
  expect(await kept.eventIds()).toEqual([])
})

test('the effect and the removal commit together, or not at all', async () => {
  const kept = await open()
  const { hub, db } = kept
  await hub.defineType('t', { keepMs: 0 })
  hub.on(
    't',
    { name: 'one', retry: { kind: 'fixed', delayMs: 1_000, failuresMax: 3 } },
    async (event, attempt) => {
      await db.transaction(async (tx) => {
        await attempt.completeIn(tx)
        if (attempt.number === 1) throw new Error('undone')
      })
      expect(event.payload).toBe(1)
    },
  )
  await hub.start()
  const { id } = await hub.publish({ type: 't', payload: 1 })
  await kept.drain()
  expect(await kept.eventIds()).toEqual([id])
  await kept.clock.advance(2_000)
  await kept.drain()
  expect(await kept.eventIds()).toEqual([])
})

test('to finalize it twice is to finalize it once, also when it is gone', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('t', { keepMs: 0 })
  await hub.subscribe('t', { name: 'one' })
  const { id } = await hub.publish({ type: 't', payload: 1 })
  expect((await hub.poll({ subscription: 'one' }))?.id).toBe(id)
  await hub.finalize(id)
  expect(await kept.eventIds()).toEqual([])
  await hub.finalize(id)
  expect(await kept.count('audit')).toBe(1)
})

test('a lane goes on when the event at its head is gone', async () => {
  const kept = await open()
  const { hub } = kept
  const seen: unknown[] = []
  hub.on('t', { name: 'one' }, (event) => void seen.push(event.payload))
  await hub.start()
  await hub.defineType('t', { keepMs: 0 })
  for (let n = 0; n < 20; n++) await hub.publish({ type: 't', payload: n, orderingKey: 'k' })
  await kept.drain()
  await expect.poll(() => seen.length).toBe(20)
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n))
  await kept.drain()
  await expect.poll(() => kept.eventIds()).toEqual([])
})
