import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { eventually } from '../support/signal.ts'

/** A process that thinks a queue is in the database, while another one still has a part of it in memory. */

const hubs = useHubs('memory_elsewhere')

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

test.each(['k', null])(
  'what is stored of a memory queue waits until the process that has it in memory has moved it (key %s)',
  async (orderingKey) => {
    const schema = `moved_${orderingKey}`
    const { hub } = await hubs.open({ schema })
    const begun: unknown[] = []
    hub.on('t', { name: 'm', concurrency: 1 }, ({ payload }) => void begun.push(payload))
    hub.on('other', { name: 'other' }, ({ payload }) => void begun.push(payload))
    await hub.start()
    const client = await connect()
    await client.query(`insert into ${schema}.memory_queues (subscription, token, worker, held_until)
      select s.no, 1, 'another', ${schema}.clock() + interval '5 s' from ${schema}.subscriptions s where s.name = 'm'`)
    for (const payload of [1, 2]) await hub.publish({ type: 't', payload, orderingKey })
    // With a key, so that it is leased by the statement that would lease those before it.
    for (const payload of ['a', 'b', 'c']) await hub.publish({ type: 'other', payload, orderingKey: payload })
    await eventually('the others have run', () => begun.length >= 3)
    expect(begun.toSorted()).toEqual(['a', 'b', 'c'])
    await client.query(`delete from ${schema}.memory_queues`)
    await eventually('all have run', () => begun.length === 5)
    expect(begun.slice(3)).toEqual([1, 2])
  },
)
