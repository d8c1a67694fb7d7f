import pg from 'pg'
import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('hand_over_hub')

test('a hub that waits begins what it publishes after one commit', async () => {
  const { hub, drain } = await hubs.open({ schema: 'handed' })
  let held = createSignal()
  hub.on('t', { name: 'n' }, () => held.given)
  await hub.start()
  const client = new pg.Client(hubs.connection)
  await client.connect()

  // It waits once its first look for work is over.
  await eventually('the lease was made by the transaction that published', async () => {
    held = createSignal()
    await hub.publish({ type: 't', payload: 1 })
    const { rows } = await client.query(
      `select r.xmin = e.xmin as together from handed.runs r join handed.events e on e.id = r.first_id
       where r.state = 'leased' order by e.id desc limit 1`,
    )
    held.give()
    await drain()
    return rows[0]?.together === true
  })
  const { rows } = await client.query('select count(*)::int as left from handed.runs')
  await client.end()
  expect(rows[0].left).toBe(0)
})

test('a hub that is busy leaves what it publishes to the oldest-first lease', async () => {
  const { hub, drain } = await hubs.open()
  const held = createSignal()
  const seen: unknown[] = []
  hub.on('t', { name: 'n', concurrency: 2 }, async (event) => {
    seen.push(event.payload)
    if (seen.length <= 2) await held.given
  })
  await hub.start()
  for (let n = 1; n <= 2; n++) await hub.publish({ type: 't', payload: n })
  await eventually('both slots are taken', () => seen.length === 2)
  await hub.publishMany([3, 4, 5].map((payload) => ({ type: 't', payload })))
  await hub.publish({ type: 't', payload: 6 })
  held.give()
  await drain()
  expect(seen).toEqual([1, 2, 3, 4, 5, 6])
})
