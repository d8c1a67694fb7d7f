import pg from 'pg'
import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_lost')
const inMemory = { name: 'm', storage: 'memory' } as const

/** Another process has the queue from now on. */
async function takeAway(schema: string): Promise<void> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  try {
    await client.query(`update ${schema}.memory_queues set token = token + 1`)
  } finally {
    await client.end()
  }
}

test('a process that has lost a memory queue renews its other leases all the same', async () => {
  const { hub } = await hubs.open({ schema: 'others' })
  const held = createSignal()
  let running = 0
  const wait = () => {
    running++
    return held.given
  }
  hub.on('t', { ...inMemory, leaseMs: 1_000 }, wait)
  hub.on('other', { name: 'other', leaseMs: 1_000 }, wait)
  const lost: unknown[] = []
  hub.events.on('lost', ({ subscription }) => void lost.push(subscription))
  const completed = new Set<string>()
  hub.events.on('settled', ({ subscription, settlement }) => {
    if (settlement === 'complete') completed.add(subscription)
  })
  await hub.start()
  // What expires is stored, so the lease of it has to be renewed as well.
  const expiresAt = new Date(Date.now() + 3_600_000)
  await hub.publish({ type: 't', payload: 1, expiresAt })
  await hub.publish({ type: 'other', payload: 2 })
  await eventually('both are running', () => running === 2)
  await takeAway('others')
  await hub.memory.persist()
  expect(hub.memory.views).toEqual([])
  const leasedUntil = async () => {
    const client = new pg.Client(hubs.connection)
    await client.connect()
    const { rows } = await client.query<{ at: Date }>(
      `select r.leased_until as at from others.runs r join others.subscriptions s on s.no = r.subscription
      where r.state = 'leased' and s.name = 'other'`,
    )
    await client.end()
    return rows[0]?.at.getTime() ?? 0
  }
  const before = await leasedUntil()
  await eventually('the other lease is renewed', async () => (await leasedUntil()) > before + 1_000)
  held.give()
  await eventually('the other is completed', () => completed.has('other'))
})
