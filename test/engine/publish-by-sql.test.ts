import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPosthorn } from '../../src/create.ts'
import { deliveryId, eventShard } from '../../src/domain/id.ts'
import { matchesPattern } from '../../src/domain/pattern.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let client: pg.Client
let hub: Posthorn

beforeAll(async () => {
  database = await createTestDatabase('sql')
  hub = await createPosthorn({ database: database.connection, poolMax: 3, log: false })
  client = new pg.Client(database.connection)
  await client.connect()
})

afterAll(async () => {
  await client.end()
  await hub.stop()
  await database.drop()
})

describe('posthorn.publish, for triggers and other languages', () => {
  test('stores an event with its fields and returns its id', async () => {
    const { rows } = await client.query(
      `select posthorn.publish('order.created', '{"order" : 7}', tags => ' eu, vip,eu ', ordering_key => 'c3') as id`,
    )
    const stored = await hub.event(Number(rows[0].id))
    expect(stored?.event).toMatchObject({
      type: 'order.created',
      payloadText: '{"order" : 7}',
      tags: ['eu', 'vip'],
      orderingKey: 'c3',
    })
  })

  test.each([
    [`posthorn.publish('bad type', '1')`, 'type'],
    [`posthorn.publish(null, '1')`, 'type or title'],
    [`posthorn.publish(null, '1', title => 't')`, 'type or tags'],
    [`posthorn.publish('t', 'not json')`, 'json'],
    [`posthorn.publish('t', repeat('[', 65) || repeat(']', 65))`, 'nested'],
    [`posthorn.publish('t', repeat('{"a":[', 33) || '"]}"' || repeat(']}', 33))`, 'nested'],
    [`posthorn.publish('t', null)`, 'payload'],
    [`posthorn.publish('t', repeat('1', 1048577))`, 'payload'],
    [`posthorn.publish('t', '1', ordering_key => '')`, 'ordering_key'],
    [`posthorn.publish('t', '1', concurrency_key => '')`, 'concurrency_key'],
    [`posthorn.publish('t', '1', concurrency_key => repeat('x', 256))`, 'concurrency_key'],
    [`posthorn.publish('t', '1', idempotency_key => repeat('x', 256))`, 'idempotency_key'],
    [`posthorn.publish('t', '1', correlation_id => '')`, 'correlation_id'],
    [`posthorn.publish('t', '1', causation_id => repeat('x', 256))`, 'causation_id'],
    [`posthorn.publish('t', '1', title => repeat('x', 501))`, 'title'],
    [`posthorn.publish('t', '1', description => repeat('x', 10001))`, 'description'],
    [
      `posthorn.publish('t', '1', traceparent => '00-' || repeat('0', 32) || '-b7ad6b7169203331-01')`,
      'traceparent',
    ],
    [`posthorn.publish('t', '1', run_at => 'infinity')`, 'run_at'],
    [`posthorn.publish('t', '1', tags => repeat('x', 101))`, 'tags'],
    [`posthorn.publish('t', '1', max_retries => 0)`, 'max_retries'],
    [`posthorn.publish('t', '1', run_at => now(), expires_at => now())`, 'run_at'],
  ])('select %s is refused, naming %s', async (call, named) => {
    await expect(client.query(`select ${call}`)).rejects.toThrow(named)
  })

  test.each([
    `repeat('[', 64) || repeat(']', 64)`,
    `'[' || repeat('{"a]\\"[":[],"[":{}},', 100) || '"[[[" ]'`,
    `to_json(repeat('[', 500))::text`,
  ])('a payload that is nested no deeper than 64 is taken: %s', async (payload) => {
    await client.query(`select posthorn.publish('t', ${payload})`)
  })

  test('works in a trigger, in the transaction of the row', async () => {
    await client.query(`
      create table orders (id int primary key);
      create function tell() returns trigger language plpgsql as $$
      begin
        perform posthorn.publish('order.inserted', json_build_object('order', new.id)::text, idempotency_key => 'order ' || new.id);
        return null;
      end $$;
      create trigger tell after insert on orders for each row execute function tell();`)
    await client.query('begin; insert into orders values (1); rollback')
    await client.query('insert into orders values (1)')
    const { events } = await hub.listEvents({ type: 'order.inserted' })
    expect(events).toHaveLength(1)
    await expect(
      client.query(`select posthorn.publish('other', '2', idempotency_key => 'order 1')`),
    ).rejects.toThrow('order 1')
  })
})

describe('what SQL and TypeScript compute alike', () => {
  test('the id of a delivery', async () => {
    for (const [eventId, subscriptionNo] of [
      [1, 0],
      [2 ** 43 + 5, 7],
      [Number.MAX_SAFE_INTEGER, 2 ** 21 - 1],
    ] as const) {
      const createdAt = '2026-11-15T12:34:56.789999Z'
      const { rows } = await client.query('select posthorn.delivery_id($1, $2, $3) as id', [
        createdAt,
        eventId,
        subscriptionNo,
      ])
      expect(rows[0].id).toBe(deliveryId({ createdAtMs: Date.parse(createdAt), eventId, subscriptionNo }))
    }
  })

  test('which patterns want a type', async () => {
    for (const type of ['a', 'a.b', 'a.b.c']) {
      const { rows } = await client.query('select posthorn.patterns_for($1) as patterns', [type])
      const candidates = ['*', 'a', 'a.*', 'a.b', 'a.b.*', 'a.b.c', 'a.b.c.*', 'b.*']
      expect(rows[0].patterns.sort()).toEqual(
        candidates.filter((pattern) => matchesPattern(pattern, type)).sort(),
      )
    }
  })
})

describe('event ids', () => {
  test('run 1, 2, 3 in shard 0, and begin in the range of another shard', async () => {
    const first = await createPosthorn({
      database: database.connection,
      schema: 's0',
      poolMax: 2,
      log: false,
    })
    const many = await first.publishMany([1, 2, 3].map((payload) => ({ type: 't', payload })))
    expect(many.map((event) => event.id)).toEqual([1, 2, 3])
    await first.stop()

    const options = { database: database.connection, schema: 's5', poolMax: 2, log: false } as const
    const fifth = await createPosthorn({ ...options, shard: 5 })
    const { id } = await fifth.publish({ type: 't', payload: 1 })
    expect([id, eventShard(id)]).toEqual([5 * 2 ** 43 + 1, 5])
    expect((await fifth.event(id))?.event.id).toBe(id)
    await fifth.stop()
    await expect(createPosthorn({ ...options, shard: 6 })).rejects.toMatchObject({ code: 'BAD_OPTION' })
    const last = await createPosthorn({ ...options, schema: 's1023', shard: 1023 })
    expect((await last.publish({ type: 't', payload: 1 })).id).toBe(1023 * 2 ** 43 + 1)
    await last.stop()
  })
})
