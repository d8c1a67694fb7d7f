import pg from 'pg'
import { expect, test } from 'vitest'
import { createLogger } from '../../src/observe/log.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('lost_wake_ups')

test('a lane that upkeep has to wake is counted and logged as an error', async () => {
  const errors: object[] = []
  const log = createLogger('error', { write: (line) => void errors.push(JSON.parse(line)) })
  const { hub, drain } = await hubs.open({ schema: 'asleep', log })
  const handled: unknown[] = []
  hub.on('t', { name: 's' }, ({ payload }) => void handled.push(payload))
  await hub.start()
  // As a statement that forgets its note would leave it.
  const client = new pg.Client(hubs.connection)
  await client.connect()
  await client.query(`
    with stored as (
      insert into asleep.events (id, type, payload, ordering_key, owed, created_at)
      select nextval('asleep.event_ids'), 't', '7', 'k', array[s.no], now() from asleep.subscriptions s where s.name = 's'
      returning id, owed
    )
    insert into asleep.lane_queue (subscription, ordering_key, position, event_ids)
    select owed[1], 'k', 1, array[id] from stored`)
  await client.end()
  await hub.sweep()
  await drain()
  expect(handled).toEqual([7])
  expect(errors).toMatchObject([{ subscription: 's', kind: 'lane', key: 'k' }])
  const { values } = await hub.metrics.wakeUpsLost.get()
  expect(values).toMatchObject([{ labels: { kind: 'lane' }, value: 1 }])
})
