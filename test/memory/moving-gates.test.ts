import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { eventually } from '../support/signal.ts'

const hubs = useHubs('memory_moving_gates')
const retry = { kind: 'fixed', delayMs: 3_600_000, failuresMax: 3 } as const
const options = { name: 'm', retry } as const

test('what waits at a gate that the move of its queue has freed begins, and does not sleep', async () => {
  const first = await hubs.open({ schema: 'gates' })
  let failed = 0
  first.hub.on('t', { ...options, storage: 'memory' }, () => {
    failed++
    throw new Error('not yet')
  })
  await first.hub.start()
  await first.hub.publish({ type: 't', payload: 1, orderingKey: 'k' })
  await eventually('it waits for its retry', () => failed === 1)
  await first.hub.stop()

  const second = await hubs.open({ schema: 'gates' })
  const seen: unknown[] = []
  const see = ({ payload }: { payload: unknown }) => void seen.push(payload)
  second.hub.on('t', { ...options, storage: 'memory', keyConcurrency: 1 }, see)
  await second.hub.start()
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  const publish = async (payload: number, orderingKey: string, states: readonly string[]) => {
    const { id } = await second.hub.publish({ type: 't', payload, orderingKey, concurrencyKey: 'x' })
    await eventually(`${payload} is one of ${states}`, async () => {
      const { rows } = await client.query('select state from gates.runs where first_id = $1', [id])
      return states.includes(rows[0]?.state)
    })
  }
  // One passes the gate, and waits for what its lane has in memory. The other waits at the gate.
  await publish(2, 'k', ['ready', 'leased'])
  await publish(3, 'j', ['gated'])

  const third = await hubs.open({ schema: 'gates' })
  third.hub.on('t', { ...options, keyConcurrency: 1 }, see)
  await third.hub.start()
  await eventually('it begins', () => seen.length > 0)
  expect(seen).toEqual([3])
})
