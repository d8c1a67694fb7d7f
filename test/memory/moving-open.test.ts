import pg from 'pg'
import { expect, test } from 'vitest'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('memory_moving_open')

async function rows<Row extends object>(text: string): Promise<Row[]> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}

test.each(['commit', 'rollback'])(
  'a queue that moves waits for a transaction that completes one of its events, and its effect is there once: %s',
  async (end) => {
    const schema = `open_${end}`
    const first = await hubs.open({ schema })
    await rows(`create table ${schema}.effects (event_id bigint)`)
    const opened = createSignal()
    const mayEnd = createSignal()
    const complete = async (id: number, attempt: { completeIn: (tx: pg.Client) => Promise<void> }) => {
      const client = new pg.Client(hubs.connection)
      await client.connect()
      await client.query('begin')
      await attempt.completeIn(client)
      await client.query(`insert into ${schema}.effects values ($1)`, [id])
      return client
    }
    first.hub.on('t', { name: 'm', storage: 'memory' }, async ({ id }, attempt) => {
      const client = await complete(id, attempt)
      opened.give()
      await mayEnd.given
      await client.query(end)
      await client.end()
    })
    await first.hub.start()
    const { id } = await first.hub.publish({ type: 't', payload: 1 })
    await opened.given

    const second = await hubs.open({ schema })
    let attempts = 0
    second.hub.on('t', { name: 'm' }, async ({ id }, attempt) => {
      attempts++
      const client = await complete(id, attempt)
      await client.query('commit')
      await client.end()
    })
    const starting = second.hub.start()
    const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
      and (query like '%claim_unsettled%' or query like '%memory_settled%')`
    await eventually('the move waits for the transaction', async () => (await rows(waits)).length > 0)
    mayEnd.give()
    await starting
    await eventually('there is an effect', async () => {
      // An attempt whose transaction was rolled back is tried again after a while.
      const deferred = await rows(`select 1 from ${schema}.runs where state = 'deferred'`)
      if (deferred.length > 0) await second.clock.advance(5_000)
      return (await rows(`select 1 from ${schema}.effects`)).length > 0
    })
    await second.drain()
    expect(await rows(`select event_id::int as id from ${schema}.effects`)).toEqual([{ id }])
    expect(attempts).toBe(end === 'commit' ? 0 : 1)
  },
)
