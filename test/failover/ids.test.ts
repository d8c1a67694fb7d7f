import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { expect, test } from 'vitest'
import type { Database, Statement } from '../../src/db/database.ts'
import { quoteIdentifier } from '../../src/db/identifier.ts'
import { measurePressure } from '../../src/queues/queue-upkeep.ts'
import { useHubs } from '../support/hub.ts'

const jump = 2 ** 28
const hubs = useHubs('failover_ids')

/** As a server finds it that was promoted: the ids are still those of another timeline. */
async function promote(hub: { query: pg.Client; schema: string }): Promise<void> {
  await hub.query.query(`select setval('${hub.schema}.id_timeline', 77)`)
  await hub.query.query(`update ${hub.schema}.told_timeline set timeline = 77`)
}

async function open(schema: string) {
  const { hub, clock } = await hubs.open({ schema })
  const query = new pg.Client(hubs.connection)
  await query.connect()
  return { hub, clock, query, schema }
}

test('after a failover ids that were given before are not given again, whoever publishes first', async () => {
  const one = await open('jumps')
  const { hub, query } = one
  const first = await hub.publish({ type: 'a', payload: 1 })
  await promote(one)
  const { rows } = await query.query(`select jumps.publish('a', '2') as id`)
  expect(Number(rows[0].id)).toBeGreaterThan(first.id + jump)
  await promote(one)
  const third = await hub.publish({ type: 'a', payload: 3 })
  expect(third.id).toBeGreaterThan(Number(rows[0].id) + jump)
  const fourth = await hub.publish({ type: 'a', payload: 4 })
  expect(fourth.id).toBe(third.id + 1)
  await query.end()
})

test('of many that publish at once after a failover none draws an id before the jump, and ids jump once', async () => {
  const one = await open('crowd')
  const before = await one.hub.publish({ type: 'a', payload: 0 })
  await promote(one)
  const clients = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const client = new pg.Client(hubs.connection)
      await client.connect()
      return client
    }),
  )
  // Of every isolation level, and some are rolled back: the jump is not.
  const levels = ['read committed', 'repeatable read', 'serializable']
  for (const [at, client] of clients.entries()) {
    await client.query(`begin isolation level ${levels[at % 3]}`)
    await client.query('select pg_current_snapshot()')
  }
  const answers = await Promise.all(
    clients.map((client) => client.query(`select crowd.publish('a', '1', notify => false) as id`)),
  )
  const ids = answers.map(({ rows }) => Number(rows[0].id)).sort((a, b) => a - b)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids[0]).toBeGreaterThan(before.id + jump)
  expect(ids.at(-1)).toBeLessThan(before.id + jump + 1000)
  for (const [at, client] of clients.entries()) {
    await client.query(at % 2 === 0 ? 'rollback' : 'commit')
    await client.end()
  }
  const after = await one.hub.publish({ type: 'a', payload: 2 })
  expect(after.id).toBe((ids.at(-1) as number) + 1)
  await one.query.end()
})

test('numbers that processes remember, of workers and subscriptions, are not given again after a failover', async () => {
  const one = await open('numbers')
  await one.query.query(`insert into numbers.workers (name, seen_at) values ('lost', now())`)
  const lost = await one.query.query(`delete from numbers.workers where name = 'lost' returning no`)
  await promote(one)
  const other = await hubs.open({ schema: 'numbers', workerId: 'new' })
  other.hub.on('a', { name: 'fresh' }, async () => undefined)
  await other.hub.start()
  for (;;) {
    const { rows } = await one.query.query(`select no from numbers.workers where name = 'new'`)
    if (rows.length > 0) {
      expect(rows[0].no).toBeGreaterThan(lost.rows[0].no + 2 ** 16)
      break
    }
    await delay(5)
  }
  const { rows } = await one.query.query(`select no from numbers.subscriptions where name = 'fresh'`)
  expect(rows[0].no).toBeGreaterThan(2 ** 10)
  await one.query.end()
})

test('after a failover publishers do not wait for whoever measures the queues', async () => {
  const one = await open('measured')
  await one.hub.subscribe('b', { name: 'limited', maxQueueDepth: 2 })
  const measuring = new pg.Client(hubs.connection)
  await measuring.connect()
  await measuring.query('begin')
  await measurePressure({
    schema: quoteIdentifier(one.schema),
    once: async ({ text }: Statement, values: unknown[]) =>
      (await measuring.query({ text, values, rowMode: 'array' })).rows,
  } as unknown as Database)
  await promote(one)
  await one.query.query(`set lock_timeout = '2 s'`)
  const { rows } = await one.query.query(`select measured.publish('a', '1') as id`)
  expect(Number(rows[0].id)).toBeGreaterThan(jump)
  await measuring.end()
  await one.query.end()
})

test('after very many failovers publishing goes on, and there are numbers for new subscriptions', async () => {
  const one = await open('many')
  await one.query.query(`select setval('many.subscriptions_no_seq', 2097151 - 20)`)
  await one.query.query(`select setval('many.workers_no_seq', 2147483647 - 20)`)
  for (const payload of [1, 2]) {
    await promote(one)
    await one.hub.publish({ type: 'a', payload })
  }
  const last = async (sequence: string) =>
    Number((await one.query.query(`select last_value from many.${sequence}`)).rows[0].last_value)
  expect(await last('subscriptions_no_seq')).toBe(2097151 - 5)
  expect(await last('workers_no_seq')).toBe(2147483647 - 5)
  await one.hub.subscribe('a', { name: 'another' })
  // And when none is left.
  await one.query.query(`select setval('many.subscriptions_no_seq', 2097151)`)
  await one.query.query(`select setval('many.workers_no_seq', 2147483647)`)
  await promote(one)
  expect((await one.hub.publish({ type: 'a', payload: 3 })).id).toBeGreaterThan(3 * jump)
  await one.query.end()
})

test('a jump of ids is told once: as a warning, a metric and an operational event', async () => {
  const one = await open('told')
  await one.hub.subscribe('posthorn.database.promoted', { name: 'ops' })
  await one.clock.advance(0)
  await promote(one)
  await one.clock.advance(0)
  await one.clock.advance(0)
  expect(await one.hub.scrape()).toMatch(/^posthorn_alerts_total\{alert="posthorn.database.promoted"\} 1$/m)
  for (;;) {
    const { rows } = await one.query.query(
      `select payload from told.events where type = 'posthorn.database.promoted'`,
    )
    if (rows.length > 0) {
      expect(JSON.parse(rows[0].payload)).toMatchObject({ timeline: 1, idJump: jump })
      break
    }
    await delay(5)
  }
  await one.query.end()
})
