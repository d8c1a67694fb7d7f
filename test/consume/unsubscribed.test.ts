import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('unsubscribed')

test.each([
  { from: 'the process that handles them', schema: 'here' },
  { from: 'another process', schema: 'elsewhere' },
])('nothing that is leased begins after an unsubscribe from $from', async ({ from, schema }) => {
  const { hub } = await hubs.open({ schema, upkeep: true })
  const begun: unknown[] = []
  const ending = createSignal()
  onTestFinished(ending.give)
  hub.on('t', { name: 'ended', concurrency: 1 }, async ({ payload }) => {
    begun.push(payload)
    await ending.given
  })
  await hub.start()
  const lanes = ['a', 'b'].flatMap((orderingKey) => [1, 2, 3].map((n) => ({ orderingKey, n })))
  const published = await hub.publishMany(
    lanes.map(({ orderingKey, n }) => ({ type: 't', orderingKey, payload: `${orderingKey}${n}` })),
  )
  await eventually('both lanes are leased', async () => (await leasedLanes(schema)) === 2)
  await eventually('an attempt is under way', () => begun.length === 1)

  const unsubscriber = from === 'another process' ? (await hubs.open({ schema })).hub : hub
  await unsubscriber.unsubscribe('ended')
  await eventually('only the lane that is under way is leased', async () => (await leasedLanes(schema)) === 1)
  ending.give()

  const statuses = async () =>
    Promise.all(published.map(async ({ id }) => (await hub.event(id))?.progress.status))
  await eventually('the rest is cancelled', async () => {
    const cancelled = (await statuses()).filter((status) => status === 'CANCELLED')
    return cancelled.length === lanes.length - 1
  })
  expect(await statuses()).toContain('COMPLETED')
  expect(begun).toHaveLength(1)
})

async function leasedLanes(schema: string): Promise<number> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  try {
    const { rows } = await client.query(
      `select count(*)::int as lanes from ${schema}.runs where state = 'leased'`,
    )
    return rows[0].lanes
  } finally {
    await client.end()
  }
}
