import { expect, test } from 'vitest'
import { listDeadLetterHeads } from '../../src/deliveries/dead-letters.ts'
import { listDeliveries } from '../../src/deliveries/list-deliveries.ts'
import type { LeasedDelivery } from '../../src/domain/delivery.ts'
import { listEvents } from '../../src/events/list-events.ts'
import { type Engine, useEngines } from '../support/engine.ts'
import { allPages, oneWindow } from '../support/list-bounds.ts'

/** Between two pages events are published and deliveries settled: what was there all along is listed once. */

const openEngine = useEngines('moving_lists')

interface Moving {
  readonly engine: Engine
  /** Events that nothing happens to. */
  readonly still: readonly number[]
  /** Publishes a few, and settles a few that do not stand still. */
  move(): Promise<void>
}

async function moving(): Promise<Moving> {
  const engine = await openEngine()
  await engine.subscribe('still', ['still'])
  const busy = await engine.subscribe('busy', ['busy'])
  const still: number[] = []
  for (let round = 0; round < 30; round++) {
    await engine.publish({ type: 'busy' }, { type: 'busy', orderingKey: 'k' })
    still.push(...(await engine.publish({ type: 'still' }, { type: 'still', orderingKey: `k${round}` })))
  }
  const leased: LeasedDelivery[] = []
  const move = async () => {
    await engine.publish({ type: 'busy' })
    leased.push(...(await engine.lease(busy)))
    for (const [at, delivery] of leased.splice(0, 6).entries()) {
      const settlement = at % 2 === 0 ? 'completed' : 'buried'
      await engine.settle(delivery, { settlement, reason: 'x' })
    }
  }
  return { engine, still, move }
}

test.each(['asc', 'desc'] as const)('events, %s', async (order) => {
  const { engine, still, move } = await moving()
  for (const filter of [{}, { status: 'PENDING' as const }]) {
    const pages = await allPages(async (cursor) => {
      await move()
      return listEvents(engine.db, { ...filter, order, limit: 7, ...cursor }, oneWindow)
    }, 200)
    const ids = pages.flatMap(({ events }) => events.map(({ id }) => id))
    expectOnce(ids, still, order)
  }
})

test.each(['asc', 'desc'] as const)('deliveries, %s', async (order) => {
  const { engine, still, move } = await moving()
  for (const filter of [{}, { status: 'pending' as const }]) {
    const pages = await allPages(async (cursor) => {
      await move()
      return listDeliveries(engine.db, { ...filter, order, limit: 7, ...cursor }, oneWindow)
    }, 200)
    const ids = pages.flatMap(({ deliveries }) => deliveries.map(({ eventId }) => eventId))
    expectOnce(ids, still, order)
  }
})

test('dead letters', async () => {
  const { engine, move } = await moving()
  for (let round = 0; round < 4; round++) await move()
  const early = (await listDeadLetterHeads(engine.db, { limit: 1000 })).deadLetters.map(({ id }) => id)
  expect(early.length).toBeGreaterThan(5)
  const pages = await allPages(async (cursor) => {
    await move()
    return listDeadLetterHeads(engine.db, { limit: 3, ...cursor }, oneWindow)
  }, 200)
  const ids = pages.flatMap(({ deadLetters }) => deadLetters.map(({ id }) => id))
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.slice(0, early.length)).toEqual(early)
})

function expectOnce(ids: readonly number[], still: readonly number[], order: 'asc' | 'desc'): void {
  expect(new Set(ids).size).toBe(ids.length)
  const expected = order === 'asc' ? still : [...still].reverse()
  const stood = new Set(still)
  expect(ids.filter((id) => stood.has(id))).toEqual(expected)
}
