import { once } from 'node:events'
import { Writable } from 'node:stream'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createPosthorn } from '../../src/create.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'
import { createSignal, eventually } from '../support/signal.ts'

let database: TestDatabase
let client: pg.Client
let proxy: TestProxy
const hubs: Posthorn[] = []

beforeAll(async () => {
  database = await createTestDatabase('failover_leases')
  proxy = await startProxy(database.connection)
  client = new pg.Client(database.connection)
  await client.connect()
})
afterEach(async () => {
  await Promise.all(hubs.splice(0).map((hub) => hub.stop({ graceMs: 100 })))
})
afterAll(async () => {
  await client.end()
  await proxy.close()
  await database.drop()
})

/** A lease lasts ten minutes: who waits for its end waits longer than the test. */
const leaseMs = 600_000

async function open(schema: string, workerId?: string) {
  const lines: string[] = []
  const stream = new Writable({
    write(chunk, _, done) {
      lines.push(JSON.parse(String(chunk)).msg)
      done()
    },
  })
  const hub = await createPosthorn({
    ...{ database: proxy.connection, schema, prepared: false, poolMax: 4, ...(workerId && { workerId }) },
    log: pino({ level: 'warn' }, stream),
  })
  hubs.push(hub)
  return { hub, handedBack: () => lines.filter((line) => line.startsWith('Leases whose answer')).length }
}

/** Those that a saved run can be put back with. */
async function columnsOfRuns(schema: string): Promise<string> {
  const { rows } = await client.query(
    `select string_agg(column_name, ', ') as columns from information_schema.columns
    where table_schema = $1 and table_name = 'runs' and is_generated = 'NEVER'`,
    [schema],
  )
  return rows[0].columns
}

test('a lease whose answer was lost does not stand until it ends: the process that asked for it hands it back', async () => {
  const { hub, handedBack } = await open('answer')
  const attempts: string[] = []
  hub.on('a', { name: 'one', leaseMs, retry: { failuresMax: 1 } }, async (event, attempt) => {
    attempts.push(`${event.payload}, attempt ${attempt.number}`)
  })
  await hub.start()
  let published = 0
  // A lease that finds nothing may come first.
  while (handedBack() === 0) {
    const settled = once(hub.events, 'settled')
    proxy.cutAt('as last_id', 'committed')
    await client.query(`select answer.publish('a', '${++published}')`)
    await settled
  }
  expect(attempts).toEqual(Array.from({ length: published }, (_, at) => `${at + 1}, attempt 1`))
})

test('a lane whose settlement was lost with a server does not stand: its run goes back, uncounted', async () => {
  const { hub, handedBack } = await open('settlement')
  await client.query('create table settlement.saved as select * from settlement.runs')
  const attempts: string[] = []
  hub.on('a', { name: 'one', leaseMs, retry: { failuresMax: 1 } }, async (event, attempt) => {
    attempts.push(`${event.payload}, attempt ${attempt.number}`)
    await client.query(`insert into settlement.saved select * from settlement.runs where state = 'leased'`)
  })
  await hub.start()
  const settled = once(hub.events, 'settled')
  await hub.publish({ type: 'a', payload: 1, orderingKey: 'k' })
  await settled
  // As a standby has it that got the lease and not the settlement, with the next event behind it.
  const columns = await columnsOfRuns('settlement')
  await client.query('delete from settlement.audit')
  await client.query(
    `insert into settlement.runs (${columns}) overriding system value select ${columns} from settlement.saved`,
  )
  const again = once(hub.events, 'settled')
  proxy.drop()
  await hub.publish({ type: 'a', payload: 2, orderingKey: 'k' }).catch(() => undefined)
  await again
  while (attempts.length < 2) await once(hub.events, 'settled')
  expect(attempts.slice(0, 2)).toEqual(['1, attempt 1', '1, attempt 1'])
  expect(handedBack()).toBe(1)
})

test('a lane whose settlement was lost with a server does not stand while a lane of the same lease is busy', async () => {
  const { hub, handedBack } = await open('neighbour')
  const neighbour = createSignal()
  const attempts: string[] = []
  hub.on('a', { name: 'one', leaseMs, concurrency: 2 }, async ({ payload }, attempt) => {
    attempts.push(`${payload}, attempt ${attempt.number}`)
    if (payload === 'busy') return neighbour.given
    await client.query('create table if not exists neighbour.saved as select * from neighbour.runs')
  })
  await hub.start()
  const settled = once(hub.events, 'settled')
  await hub.publishMany(['busy', 'lost'].map((key) => ({ type: 'a', payload: key, orderingKey: key })))
  await settled
  const { rows: leases } = await client.query(
    'select count(*)::int as runs, count(distinct token)::int as tokens from neighbour.saved',
  )
  expect(leases).toEqual([{ runs: 2, tokens: 1 }])
  // As a standby has it that got the lease and not the settlement.
  const columns = await columnsOfRuns('neighbour')
  await client.query('delete from neighbour.audit')
  await client.query(
    `insert into neighbour.runs (${columns}) overriding system value
    select ${columns} from neighbour.saved where ordering_key = 'lost'`,
  )
  proxy.drop()
  await eventually('the lane goes on', () => attempts.length === 3)
  expect(attempts).toEqual(['busy, attempt 1', 'lost, attempt 1', 'lost, attempt 1'])
  expect(handedBack()).toBe(1)
  neighbour.give()
})

test.each(['client', 'finalize'])(
  'a lane whose settlement by %s was lost with a server does not stand: it is settled once more',
  async (by) => {
    const schema = `pulled_${by}`
    const { hub } = await open(schema)
    await hub.start()
    await hub.subscribe('a', { name: 'pulled', leaseMs })
    const [first, second] = await hub.publishMany(
      [1, 2].map((payload) => ({ type: 'a', payload, orderingKey: 'k' })),
    )
    const runs = by === 'client' ? await leaseRuns(hub, 'pulled') : []
    if (by === 'finalize') await hub.poll({ subscription: 'pulled' })
    const columns = await columnsOfRuns(schema)
    await client.query(`create table ${schema}.saved as select ${columns} from ${schema}.runs`)
    if (by === 'client') await settleRuns(hub, runs, { kind: 'succeeded' })
    else await hub.finalize(first?.id as number)
    // As a standby has it that got the lease and not the settlement.
    await client.query(`delete from ${schema}.audit; delete from ${schema}.runs`)
    await client.query(
      `insert into ${schema}.runs (${columns}) overriding system value select ${columns} from ${schema}.saved`,
    )
    const isNext = async () =>
      (await hub.poll({ subscription: 'pulled' }).catch(() => null))?.id === second?.id
    expect(await isNext()).toBe(false)
    proxy.drop()
    await eventually('the lane goes on', isNext)
    expect((await hub.event(first?.id as number))?.progress).toMatchObject({
      status: 'COMPLETED',
      attempts: 1,
    })
  },
)

test('a failed attempt whose move to a run of its own was not answered counts as failed', async () => {
  const { hub, handedBack } = await open('moved')
  const attempts: string[] = []
  const cut = createSignal()
  hub.on('a', { name: 'one', leaseMs, retry: { failuresMax: 1 } }, async (event, attempt) => {
    attempts.push(`${event.payload}, attempt ${attempt.number}`)
    if (event.payload === 'neighbour') return cut.given
    proxy.cutAt('array_remove(r.event_ids', 'committed')
    await attempt.completeIn(client).finally(cut.give)
  })
  await hub.start()
  const ends = [once(hub.events, 'buried'), once(hub.events, 'lost')]
  // Both in one run.
  await hub.publishMany(['moved', 'neighbour'].map((payload) => ({ type: 'a', payload })))
  await Promise.race(ends)
  const { rows } = await client.query(`select event_id is not null as "isBuried" from moved.dead_letters`)
  expect(rows).toEqual([{ isBuried: true }])
  expect(attempts).toEqual(['moved, attempt 1', 'neighbour, attempt 1'])
  expect(handedBack()).toBe(0)
})

test('what a process of the same name holds, or this one is still leasing, is not handed back', async () => {
  const first = await open('names', 'same')
  const second = await open('names', 'same')
  let release: () => void = () => undefined
  const blocked = new Promise<void>((resolve) => {
    release = resolve
  })
  let runs = 0
  const begun = new Promise<void>((resolve) => {
    first.hub.on('a', { name: 'one', leaseMs }, async () => {
      runs++
      resolve()
      await blocked
    })
  })
  second.hub.on('b', { name: 'two', leaseMs }, async () => undefined)
  await first.hub.start()
  await second.hub.start()
  await first.hub.publish({ type: 'a', payload: 1 })
  await begun
  const settled = once(second.hub.events, 'settled')
  proxy.drop()
  for (;;) {
    const published = await second.hub.publish({ type: 'b', payload: 1 }).catch(() => undefined)
    if (published !== undefined) break
  }
  await settled
  const { rows } = await client.query(`select count(*)::int as leased from names.runs where state = 'leased'`)
  expect(rows).toEqual([{ leased: 1 }])
  release()
  await once(first.hub.events, 'settled')
  expect(runs).toBe(1)
  expect(first.handedBack() + second.handedBack()).toBe(0)
})
