import pg from 'pg'
import { expect, test } from 'vitest'
import type { PublishedEvent } from '../../src/index.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** A lane of a memory queue that stops, where a part of it is in the database. */

const hubs = useHubs('memory_blocking')

async function statesOf(schema: string): Promise<string[]> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  try {
    const { rows } = await client.query<{ state: string }>(
      `select state::text from ${schema}.runs order by id`,
    )
    return rows.map(({ state }) => state)
  } finally {
    await client.end()
  }
}

/** A and B in memory, C behind them in the database; A fails until `mended`. */
async function openLane(schema: string, last: { idempotencyKey?: string; expiresAt?: Date }) {
  const test = await hubs.open({ schema })
  const { hub } = test
  const seen: unknown[] = []
  const gate = createSignal()
  const lane = { mended: false }
  const retry = { kind: 'fixed', delayMs: 10, failuresMax: 1 } as const
  hub.on('t', { name: 'm', storage: 'memory', onExhausted: 'block', retry }, async ({ payload }) => {
    seen.push(payload)
    if (payload !== 'A' || lane.mended) return
    await gate.given
    throw new Error('no')
  })
  await hub.start()
  const publish = (payload: string, more = {}) =>
    hub.publish({ type: 't', payload, orderingKey: 'k', ...more }) as Promise<PublishedEvent>
  await publish('A')
  const b = await publish('B')
  await publish('C', last)
  const isStored = async () => (await statesOf(schema)).some((state) => ['ready', 'leased'].includes(state))
  await eventually('C is in its lane', isStored)
  gate.give()
  await eventually('the lane has stopped', async () => (await statesOf(schema)).includes('blocked'))
  return { ...test, seen, lane, b }
}

/** Whatever could begin has begun once others have come and gone. */
async function passTime(hub: { publish: (event: object) => Promise<unknown> }, seen: unknown[]) {
  for (const payload of ['x', 'y', 'z']) {
    await hub.publish({ type: 't', payload })
    await eventually(`${payload} is done`, () => seen.includes(payload))
  }
}

test('what is stored of a lane that stops in memory does not begin, and runs once after the head', async () => {
  const { hub, seen, lane } = await openLane('held_back', { idempotencyKey: 'c' })
  await passTime(hub as never, seen)
  const ofLane = () => seen.filter((payload) => 'ABC'.includes(payload as string))
  expect(ofLane()).toEqual(['A'])
  lane.mended = true
  await hub.unblock('m', 'k', 'retry')
  await eventually('the lane is done', () => ofLane().length >= 4)
  await passTime(hub as never, seen)
  expect(ofLane()).toEqual(['A', 'A', 'B', 'C'])
})

test('what stops behind a buried head does not expire with what is stored behind it', async () => {
  const expiresAt = new Date(Date.now() + 60_000)
  const { hub, clock, drain, b } = await openLane('expiring', { expiresAt })
  await clock.advance(120_000)
  await eventually('C has expired', async () => (await hub.deadLetters()).deadLetters.length >= 2)
  await drain()
  expect((await hub.event(b.id))?.progress.status).toBe('PENDING')
})
