import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { claimLeftMemory } from '../../src/memory/claim-memory.ts'
import { Persister } from '../../src/memory/persister.ts'
import { useEngines } from '../support/engine.ts'
import { useHubs } from '../support/hub.ts'
import { startProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** Memory queues whose process has vanished, lost them or stops, and what becomes of those that are left. */

const hubs = useHubs('memory_left')
const openEngine = useEngines('memory_left_engine')
const inMemory = { name: 'm', storage: 'memory' } as const
const claimMs = 5_000

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** A process that had the queue in memory, or was about to move it, has vanished: this is all that is left of it. */
const leave = (
  schema: string,
  token: number | null,
) => `insert into ${schema}.memory_queues (subscription, token, worker, held_until)
  select s.no, ${token}, 'vanished', case when ${token} is not null then ${schema}.clock() end
  from ${schema}.subscriptions s where s.name = 'm'`

test.each([1, null])(
  'a queue in the database goes on after a process vanished that was about to move it (token %s)',
  async (token) => {
    const schema = `vanished_${token}`
    const { hub, drain } = await hubs.open({ schema })
    const seen: unknown[] = []
    hub.on('t', { name: 'm' }, ({ payload }) => void seen.push(payload))
    await hub.start()
    const client = await connect()
    await client.query(leave(schema, token))
    await client.query(
      `insert into ${schema}.memory_events (subscription, event_id, type, payload, lane_key, ordering_key, created_at, attempts,
        failures) select no, 1, 't', '"left"', 'k', 'k', now(), 0, 0 from ${schema}.subscriptions where name = 'm'`,
    )
    await client.query(`select setval('${schema}.event_ids', 1)`)
    await hub.publish({ type: 't', payload: 'new', orderingKey: 'k' })
    await hub.sweep()
    await drain()
    expect(seen).toEqual(['left', 'new'])
    expect((await client.query(`select 1 from ${schema}.memory_queues`)).rows).toEqual([])
  },
)

test('a second mover that comes too late makes no memory queue of it again', async () => {
  const { db } = await openEngine()
  expect(await claimLeftMemory(db, { subscription: 1, token: 1, worker: 'late' })).toBe('gone')
  expect((await db.query(`select 1 from ${db.schema}.memory_queues`)).rows).toEqual([])
})

test('what is left in memory of a subscription that has ended is forgotten', async () => {
  const { hub } = await hubs.open({ schema: 'ended' })
  hub.on('t', { name: 'm' }, () => undefined)
  await hub.start()
  const client = await connect()
  await client.query(leave('ended', 1))
  await hub.unsubscribe('m')
  await hub.sweep()
  expect((await client.query('select 1 from ended.memory_queues')).rows).toEqual([])
})

/** An owner that has lost its queue to another process, and knows it. */
async function openLoser(schema: string, seen: unknown[]) {
  const owner = await hubs.open({ schema })
  owner.hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
  await owner.hub.start()
  const client = await connect()
  await client.query(`update ${schema}.memory_queues set token = 1, held_until = ${schema}.clock()`)
  await owner.hub.memory.persist()
  expect(owner.hub.memory.here).toEqual([])
  return { ...owner, client }
}

test('an owner that has lost its queue serves it again once it is kept in the database', async () => {
  const seen: unknown[] = []
  const { hub, client } = await openLoser('served', seen)
  const mover = await hubs.open({ schema: 'served' })
  mover.hub.on('t', { name: 'm' }, () => undefined)
  await mover.hub.start()
  await mover.hub.stop()
  expect((await client.query('select 1 from served.memory_queues')).rows).toEqual([])
  await hub.publish({ type: 't', payload: 1 })
  await eventually('the owner of before runs it', () => seen.length === 1)
})

test('an owner that has lost its queue takes it back once nobody has it', async () => {
  const { hub } = await hubs.open({ schema: 'back' })
  const seen: unknown[] = []
  hub.on('t', inMemory, ({ payload }) => void seen.push(payload))
  await hub.start()
  // It is silent for longer than its claim lasts.
  vi.spyOn(Persister.prototype, 'tick').mockImplementation(() => undefined)
  const other = await hubs.open({ schema: 'back' })
  other.hub.on('t', inMemory, () => new Promise(() => undefined))
  await other.clock.advance(claimMs)
  await other.hub.start()
  await hub.memory.persist()
  expect(hub.memory.here).toEqual([])
  await other.hub.publish({ type: 't', payload: 1 })
  vi.restoreAllMocks()
  await other.hub.stop({ graceMs: 0 })
  await eventually('the owner of before has it again', () => hub.memory.here.length === 1)
  await hub.publish({ type: 't', payload: 2 })
  await eventually('it runs what was left and what is new', () => seen.length === 2)
  expect(seen).toEqual([1, 2])
})

test.each(['database', 'memory'] as const)(
  'a process with a handler (storage %s) serves a memory queue once its last owner has been gone for long',
  async (storage) => {
    const schema = `gone_${storage}`
    const { hub, clock } = await hubs.open({ schema })
    const seen: unknown[] = []
    hub.on('t', { name: 'm', storage }, ({ payload }) => void seen.push(payload))
    await hub.start()
    if (storage === 'memory') {
      const mover = await hubs.open({ schema })
      mover.hub.on('t', { name: 'm' }, () => undefined)
      await mover.hub.start()
      await mover.hub.stop()
    }
    const last = await hubs.open({ schema })
    last.hub.on('t', inMemory, () => new Promise(() => undefined))
    await last.hub.start()
    await last.hub.publishMany([1, 2].map((payload) => ({ type: 't', payload })))
    await last.hub.stop({ graceMs: 0 })
    // It may come back: nobody takes its queue yet.
    await hub.subscribe('x', { name: 'first' })
    await eventually('the subscriptions were read', async () => (await hub.subscriptions()).length > 1)
    expect(hub.memory.here).toEqual([])
    await clock.advance(30_001)
    await hub.subscribe('y', { name: 'second' })
    await eventually('it has the queue', () => hub.memory.here.length === 1)
    await eventually('it runs what was left', () => seen.length === 2)
    expect(seen).toEqual([1, 2])
  },
)

test('a stop waits for a database that is away as long as its grace lasts', async () => {
  const proxy = await startProxy(hubs.connection)
  onTestFinished(() => proxy.close())
  const { hub } = await hubs.open({ schema: 'away', database: proxy.connection })
  const held = createSignal()
  hub.on('t', { ...inMemory, concurrency: 1 }, () => held.given)
  await hub.start()
  await hub.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload })))
  await proxy.refuse()
  held.give()
  const stopped = hub.stop({ graceMs: 60_000 })
  const back = setTimeout(() => void proxy.accept(), 5_000)
  onTestFinished(() => clearTimeout(back))
  await stopped
  const client = await connect()
  const { rows } = await client.query(`select q.checkpoint, count(m.event_id)::int as left
    from away.memory_queues q left join away.memory_events m on m.event_id > q.checkpoint group by 1`)
  expect(rows[0].checkpoint > 0 || rows[0].left > 0).toBe(true)
})

test('a queue that cannot be moved does not keep others from being moved', async () => {
  const schema = 'stuck'
  const { hub, drain } = await hubs.open({ schema })
  const seen: unknown[] = []
  for (const name of ['first', 'm']) hub.on(name, { name }, ({ payload }) => void seen.push([name, payload]))
  await hub.start()
  const client = await connect()
  await client.query(leave(schema, null))
  await client.query(leave(schema, null).replace(`'m'`, `'first'`))
  for (const [at, name] of ['first', 'm'].entries()) {
    await client.query(
      `insert into ${schema}.memory_events (subscription, event_id, type, payload, created_at, attempts, failures)
      select no, ${at + 1}, $1, '"left"', now(), 0, 0 from ${schema}.subscriptions where name = $1`,
      [name],
    )
  }
  await client.query(`select setval('${schema}.event_ids', 2)`)
  // No run of it can be written.
  await client.query(
    `alter table ${schema}.runs add constraint not_the_first check (first_id <> 1) not valid`,
  )
  await expect(hub.sweep()).rejects.toThrow()
  await drain().catch(() => undefined)
  await eventually('the other queue goes on', () => seen.length > 0)
  expect(seen).toEqual([['m', 'left']])
  await client.query(`alter table ${schema}.runs drop constraint not_the_first`)
  await hub.sweep()
  await drain()
  expect(seen).toContainEqual(['first', 'left'])
})
