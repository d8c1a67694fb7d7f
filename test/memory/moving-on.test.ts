import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Hold } from '../../src/memory/hold.ts'
import { Memory } from '../../src/memory/memory.ts'
import { useHubs } from '../support/hub.ts'
import { startProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'

/** A process moves its memory queue to the database because another start wants it there, and something comes in between. */

const hubs = useHubs('memory_moving_on')
const inMemory = { name: 'm', storage: 'memory' } as const
const keyed = (payload: number) => ({ type: 't', payload, orderingKey: 'k' })

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** As a start of another process with this storage does. */
async function setStorage(client: pg.Client, schema: string, storage: 'memory' | 'database'): Promise<void> {
  await client.query(
    `update ${schema}.subscriptions set storage = $1, updated_at = clock_timestamp() where name = 'm'`,
    [storage],
  )
}

/** A hub that has three events of one lane in memory, the first of them out until the queue is about to be moved. */
async function openWithLane(options: Parameters<typeof hubs.open>[0]) {
  const { hub } = await hubs.open(options)
  const head = createSignal()
  const begun: unknown[] = []
  hub.on('t', inMemory, async ({ payload }) => {
    begun.push(payload)
    if (payload === 1) await head.given
  })
  await hub.start()
  await hub.publishMany([1, 2, 3].map(keyed))
  await eventually('the head is out', () => begun.length === 1)
  const { close } = Hold.prototype
  vi.spyOn(Hold.prototype, 'close').mockImplementation(function (this: Hold) {
    close.call(this)
    head.give()
  })
  onTestFinished(() => void vi.restoreAllMocks())
  return { hub, begun }
}

/** Asks for a move, and refuses it until the trigger is gone. */
async function failToMove(client: pg.Client, schema: string): Promise<void> {
  await client.query(`create sequence ${schema}.refusals;
    create function ${schema}.refuse() returns trigger language plpgsql as $$
      begin perform nextval('${schema}.refusals'); raise 'refused'; end $$;
    create trigger refuse before insert on ${schema}.runs execute function ${schema}.refuse()`)
  await setStorage(client, schema, 'database')
  await eventually('the move has failed', async () => {
    const { rows } = await client.query(`select 1 from ${schema}.refusals where is_called`)
    return rows.length > 0
  })
}

test('a process whose move of a memory queue fails tries again, and serves the queue once the database has it', async () => {
  const { hub, begun } = await openWithLane({ schema: 'refused' })
  const client = await connect()
  await failToMove(client, 'refused')
  expect(begun).toEqual([1])
  await client.query('drop trigger refuse on refused.runs')
  await eventually('the lane has run', () => begun.length === 3)
  await hub.publish(keyed(4))
  await eventually('what came later has run', () => begun.length === 4)
  expect(begun).toEqual([1, 2, 3, 4])
  expect((await client.query('select 1 from refused.memory_queues')).rows).toEqual([])
})

test('a process whose connection is cut while it moves a memory queue goes on with the queue', async () => {
  const proxy = await startProxy(hubs.connection)
  onTestFinished(() => proxy.close())
  const { begun } = await openWithLane({ schema: 'cut', database: proxy.connection })
  proxy.cutAt('pg_advisory_xact_lock', 'before')
  await setStorage(await connect(), 'cut', 'database')
  await eventually('the lane has run', () => begun.length === 3)
  expect(begun).toEqual([1, 2, 3])
})

test('a process that stops while its move of a memory queue fails leaves the queue to the next start', async () => {
  const { hub } = await openWithLane({ schema: 'stopped' })
  const client = await connect()
  await failToMove(client, 'stopped')
  await hub.stop()
  const queues = await client.query('select token from stopped.memory_queues')
  expect(queues.rows).toEqual([{ token: null }])
  await client.query('drop trigger refuse on stopped.runs')
  const second = await hubs.open({ schema: 'stopped' })
  const seen: unknown[] = []
  second.hub.on('t', { name: 'm' }, ({ payload }) => void seen.push(payload))
  await second.hub.start()
  await second.drain()
  expect(seen).toEqual([2, 3])
})

test('a memory queue whose storage is set back while it moves to the database has an owner afterwards', async () => {
  const { hub, begun } = await openWithLane({ schema: 'back' })
  const admitting = await connect()
  // The move waits for whoever admits.
  await admitting.query(`begin; select pg_advisory_xact_lock(hashtextextended('"back"', 7001))`)
  const client = await connect()
  await setStorage(client, 'back', 'database')
  await eventually('the move waits', async () => {
    const waiting = `select 1 from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`
    return (await client.query(waiting)).rows.length > 0
  })
  const heard = createSignal()
  const { refresh } = Memory.prototype
  vi.spyOn(Memory.prototype, 'refresh').mockImplementation(async function (this: Memory, subscriptions) {
    await refresh.call(this, subscriptions)
    if (subscriptions.some(({ name, storage }) => name === 'm' && storage === 'memory')) heard.give()
  })
  await setStorage(client, 'back', 'memory')
  await heard.given
  await admitting.query('commit')
  await eventually('the lane has run', () => begun.length === 3)
  await eventually('the process has the queue again', () => hub.memory.here.length === 1)
  expect(await hub.publish({ type: 't', payload: 4 })).toMatchObject({ durability: 'process' })
  await eventually('what came later has run', () => begun.length === 4)
  expect(begun).toEqual([1, 2, 3, 4])
})
