import pg from 'pg'
import { expect, test } from 'vitest'
import { heartbeat } from '../../src/engine/heartbeat.ts'
import { useEngines } from '../support/engine.ts'
import { useHubs } from '../support/hub.ts'
import { createSignal, eventually } from '../support/signal.ts'

const hubs = useHubs('changed_options')
const openEngine = useEngines('changed_options_engine')

test('a lane that another process has set to block stays blocked in a process that does not know it yet', async () => {
  const { hub, drain } = await hubs.open({ schema: 'changed' })
  const seen: unknown[] = []
  const first = createSignal()
  hub.on('t', { name: 'n', retry: { kind: 'fixed', delayMs: 1, failuresMax: 1 } }, async (event) => {
    seen.push(event.payload)
    await first.given
    if (event.payload === 1) throw new Error('no')
  })
  await hub.start()
  await hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload, orderingKey: 'k' })))
  await eventually('the first is running', () => seen.length === 1)
  const client = new pg.Client(hubs.connection)
  await client.connect()
  await client.query(`update changed.subscriptions set on_exhausted = 'block' where name = 'n'`)
  await client.end()
  first.give()
  await eventually('the head is buried', async () => (await hub.deadLetters({})).deadLetters.length === 1)
  await drain()
  expect(seen).toEqual([1])
})

test('after a burial the lane goes on', async () => {
  const { hub, drain } = await hubs.open()
  const seen: unknown[] = []
  hub.on('t', { name: 'n' }, (event, attempt) => {
    seen.push(event.payload)
    if (event.payload === 2) return attempt.bury('enough')
  })
  await hub.start()
  await hub.publishMany([1, 2, 3, 4].map((payload) => ({ type: 't', payload, orderingKey: 'k' })))
  await drain()
  expect(seen).toEqual([1, 2, 3, 4])
})

test('a run that is locked by the transaction that settles it is held, and not renewed', async () => {
  const engine = await openEngine()
  const no = await engine.subscribe('s', ['note'])
  await engine.publish({ payload: 1 }, { payload: 2 })
  const [delivery] = await engine.lease(no)
  const { id, token } = delivery?.run ?? { id: 0, token: 0 }
  const beat = { runId: id, token, leaseMs: 30_000, begun: [] }
  await engine.db.transaction(async (tx) => {
    await tx.query(`select 1 from ${engine.db.schema}.runs where id = $1 for update`, [id])
    expect(await heartbeat(engine.db, [beat])).toMatchObject([
      { runId: id, cancelled: [], leasedUntil: null },
    ])
  })
  expect(await heartbeat(engine.db, [beat])).toMatchObject([
    { runId: id, cancelled: [], leasedUntil: expect.any(Date) },
  ])
})
