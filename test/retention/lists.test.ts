import { expect, test } from 'vitest'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { dayMs, useKept } from './setup.ts'

const { open } = useKept('retention_lists')

test('lists and totals know nothing of events that are gone, though their audit is there', async () => {
  const kept = await open()
  const { hub } = kept
  await hub.defineType('gone', { keepMs: 0 })
  await hub.subscribe(['gone', 'kept'], { name: 'one' })
  await hub.publishMany(
    Array.from({ length: 30 }, (_, n) => ({ type: n % 10 === 9 ? 'kept' : 'gone', payload: n })),
  )
  for (let settled = 0; settled < 30; ) {
    const runs = await leaseRuns(hub, 'one', { limit: 30 })
    await settleRuns(hub, runs, { kind: 'succeeded' })
    settled += runs.reduce((sum, run) => sum + run.deliveries.length, 0)
  }
  const ids = await kept.eventIds()
  expect(ids).toHaveLength(3)
  for (const filter of [{}, { status: 'COMPLETED' }, { status: 'COMPLETED', type: 'kept' }] as const) {
    for (const order of ['asc', 'desc'] as const) {
      const { events, total } = await hub.listEvents({ ...filter, order, limit: 2 })
      expect(events.map(({ id }) => id)).toEqual(order === 'asc' ? ids.slice(0, 2) : ids.slice(1).reverse())
      expect(total).toBe(3)
    }
  }
  const none = await hub.listEvents({ status: 'PENDING' })
  expect(none).toMatchObject({ events: [], total: 0 })
  const { deliveries, total } = await hub.deliveries.list({ status: 'delivered' })
  expect(deliveries.map(({ eventId }) => eventId)).toEqual(ids)
  expect(total).toBe(3)
})

test('lists by status find a delivery whose dead letter was pruned while its event lives on', async () => {
  const { hub, clock, count } = await open({ keepDeadLettersMs: dayMs, keepFinishedMs: 30 * dayMs })
  const fails = await hub.subscribe(['paid'], { name: 'fails' })
  const works = await hub.subscribe(['paid'], { name: 'works' })
  const { id } = await hub.publish({
    type: 'paid',
    payload: 1,
    expiresAt: new Date(Date.now() + 900 * dayMs),
  })
  await settleRuns(hub, await leaseRuns(hub, 'fails'), { kind: 'failed', reason: 'no', permanent: true })
  await clock.advance(2 * dayMs)
  await hub.prune()
  expect(await count('dead_letters')).toBe(0)

  const inWords = async (status: 'dlq' | 'expired', subscription?: number) => {
    const { deliveries, total } = await hub.deliveries.list(
      subscription === undefined ? { status } : { status, subscription },
    )
    return { events: deliveries.map(({ eventId }) => eventId), total }
  }
  expect(await inWords('dlq')).toEqual({ events: [id], total: 1 })
  expect(await inWords('dlq', fails.no)).toEqual({ events: [id], total: 1 })
  expect(await inWords('dlq', works.no)).toEqual({ events: [], total: 0 })
  expect(await inWords('expired')).toEqual({ events: [], total: 0 })
  await settleRuns(hub, await leaseRuns(hub, 'works'), { kind: 'succeeded' })
  const { events } = await hub.listEvents({ status: 'COMPLETED_WITH_ERRORS' })
  expect(events.map((event) => event.id)).toEqual([id])
})
