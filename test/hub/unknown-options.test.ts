import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PosthornClient } from '../../src/client/index.ts'
import type { EventInput } from '../../src/domain/event.ts'
import { nearestName } from '../../src/domain/known-names.ts'
import { createPosthorn, defineEvents, event } from '../../src/index.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { testPosthorn } from '../../src/testing/index.ts'
import { inbox, LaneChecker, verify } from '../../src/webhooks/index.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
let hub: Posthorn
let pool: pg.Pool

beforeAll(async () => {
  database = await createTestDatabase('unknown_options')
  hub = (await testPosthorn({ database: database.connection, poolMax: 3 })).hub
  pool = new pg.Pool({ ...database.connection, max: 2 })
})

afterAll(async () => {
  await hub.stop()
  await pool.end()
  await database.drop()
})

const order = { type: 'order.created', payload: {} }

/** As JavaScript would call it. */
const given = <T>(value: object) => value as T

describe('a field that no event has is refused by name, with the one that was meant', () => {
  const cases: [name: string, meant: RegExp][] = [
    ['delay', /did you mean runAt\?/],
    ['groupId', /did you mean orderingKey\?/],
    ['group_id', /did you mean orderingKey\?/],
    ['ordering_key', /did you mean orderingKey\?/],
    ['orderingkey', /did you mean orderingKey\?/],
    ['idempotencykey', /did you mean idempotencyKey\?/],
    ['event_type', /did you mean type\?/],
    ['eventId', /did you mean idempotencyKey\?/],
    ['priority', /known: type, title/],
    ['__typename', /known: type, title/],
  ]
  test.each(cases)('%s', async (name, meant) => {
    const bad = given<EventInput>({ ...order, [name]: 5 })
    const refusal = { code: 'BAD_EVENT', details: { field: name, expected: expect.stringMatching(meant) } }
    await expect(hub.publish(bad)).rejects.toMatchObject(refusal)
    const inBatch = { code: 'BAD_EVENT', details: { ...refusal.details, field: `events[1].${name}` } }
    await expect(hub.publishMany([order, bad])).rejects.toMatchObject(inBatch)
  })

  test('a source as well', async () => {
    const bad = given<EventInput>({ ...order, source: { type: 'a', ID: 'b' } })
    await expect(hub.publish(bad)).rejects.toThrow(/source\.ID .*did you mean id\?/)
  })

  test('nothing of a batch is stored when one of its events has such a field', async () => {
    const bad = given<EventInput>({ type: 'batch.refused', payload: 1, delay: 5 })
    await expect(hub.publishMany([{ type: 'batch.refused', payload: 0 }, bad])).rejects.toThrow(/delay/)
    const { events } = await hub.listEvents({ type: 'batch.refused' })
    expect(events).toEqual([])
  })

  test('through the client too, before anything is sent', async () => {
    const fetch = () => Promise.reject(new Error('sent'))
    const client = new PosthornClient({ url: 'http://localhost:1', fetch, retries: 0 })
    const bad = given<EventInput>({ ...order, groupId: 'a' })
    await expect(client.publish(bad)).rejects.toThrow(/groupId .*did you mean orderingKey\?/)
    await expect(client.publishMany([bad])).rejects.toThrow(/groupId/)
  })
})

describe('an option that a call does not have is refused by name', () => {
  const event5 = 5
  const calls: [call: string, name: string, call_: () => unknown][] = [
    ['hub.on', 'concurency', () => hub.on('a', given({ name: 'a', concurency: 5 }), () => undefined)],
    [
      'hub.on',
      'retry.failureMax',
      () => hub.on('a', given({ name: 'a', retry: { failureMax: 2 } }), () => undefined),
    ],
    ['hub.subscribe', 'concurrency', () => hub.subscribe('a', given({ name: 'a', concurrency: 5 }))],
    ['publish', 'idempotencyKey', () => hub.publish(order, given({ idempotencyKey: 'a' }))],
    ['publishMany', 'notfy', () => hub.publishMany([order], given({ notfy: false }))],
    ['createPosthorn', 'databse', () => createPosthorn(given<object>({ databse: '' }))],
    ['testPosthorn', 'scheme', () => testPosthorn(given<object>({ scheme: 'a' }))],
    ['event', 'schema', () => event<string>(given({ schema: 1 }))],
    ['defineType', 'maxAge', () => hub.defineType('a', given({ maxAge: 5 }))],
    ['poll', 'tag', () => hub.poll(given({ tag: 'a' }))],
    ['finalize', 'subscriber', () => hub.finalize(event5, [], given({ subscriber: 'a' }))],
    ['event', 'log', () => hub.event(event5, given({ log: true }))],
    ['listEvents', 'types', () => hub.listEvents(given({ types: 'a' }))],
    ['deadLetters', 'eventTypes', () => hub.deadLetters(given({ eventTypes: 'a' }))],
    ['retryDeadLetters', 'sinse', () => hub.retryDeadLetters(given({ sinse: new Date(0) }))],
    ['workerPage', 'status', () => hub.workerPage(given({ status: 'alive' }))],
    ['prune', 'olderThan', () => hub.prune(given({ olderThan: 5 }))],
    ['recover', 'sinse', () => hub.recover('work', given({ sinse: new Date(0) }))],
    ['replay', 'form', () => hub.replay('work', given({ form: new Date(0) }))],
    ['stop', 'grace', () => hub.stop(given({ grace: 5 }))],
    ['queues.configure', 'maxDepth', () => hub.queues.configure('work', given({ maxDepth: 5 }))],
    ['queues.get', 'events', () => hub.queues.get('work', given({ events: 5 }))],
    ['deliveries.list', 'event', () => hub.deliveries.list(given({ event: 5 }))],
    ['lanes.list', 'state', () => hub.lanes.list('work', given({ state: 'blocked' }))],
    ['replays.list', 'subscription', () => hub.replays.list(given({ subscription: 'a' }))],
    ['PosthornClient', 'key', () => new PosthornClient(given({ url: 'http://localhost', key: 'a' }))],
    ['client.publish', 'idempotency', () => newClient().publish(order, given({ idempotency: 'a' }))],
    ['client.settle', 'sginal', () => newClient().settle([], given({ sginal: null }))],
    [
      'client.worker',
      'concurency',
      () => newClient().worker(given({ tags: 'a', concurency: 5 }), () => undefined),
    ],
    ['verify', 'tolerance', () => verify('', {}, 'whsec_a', given({ tolerance: 5 }))],
    ['LaneChecker', 'lanes', () => new LaneChecker(given({ lanes: 5 }))],
  ]
  test.each(calls)('%s: %s', async (_, name, call) => {
    const refusal = { code: 'BAD_OPTION', details: { option: name } }
    await expect((async () => call())()).rejects.toMatchObject(refusal)
  })

  test('one that is a field of the event says so', async () => {
    await expect(hub.publish(order, given({ idempotencyKey: 'a' }))).rejects.toThrow(
      /did you mean the field idempotencyKey of the event\?/,
    )
  })

  test('its value is told to nobody: it may be a secret', () => {
    const make = () => new PosthornClient(given({ url: 'http://localhost', apikey: 'ph_secret' }))
    expect(make).toThrow(/apikey .*did you mean apiKey\?/)
    expect(make).not.toThrow(/ph_secret/)
  })

  test('the nearest one is named', () => {
    expect(() => hub.on('a', given({ name: 'a', concurency: 5 }), () => undefined)).toThrow(
      /did you mean concurrency\?/,
    )
  })
})

describe('a tx that is none is refused', () => {
  test('a pool, whose statements would commit by themselves', async () => {
    const refusal = { code: 'BAD_OPTION', details: { option: 'tx', value: 'a pool' } }
    await expect(hub.publish(order, { tx: pool })).rejects.toMatchObject(refusal)
    await expect(hub.publishMany([order], { tx: pool })).rejects.toMatchObject(refusal)
    await expect(inbox(pool, 'a')).rejects.toMatchObject(refusal)
  })

  test('a transaction in place of the options', async () => {
    const client = await pool.connect()
    try {
      await expect(hub.publish(order, given(client))).rejects.toThrow(/publish\(event, \{ tx \}\)/)
    } finally {
      client.release()
    }
  })

  test.each([
    ['nothing', null],
    ['a name', 'tx'],
    ['an empty object', {}],
  ])('%s', async (_, tx) => {
    await expect(hub.publish(order, { tx: tx as never })).rejects.toThrow(/query\(text, values\)/)
  })

  test('and one that is, is not: a client of the pool, a client of its own, an object with query', async () => {
    const borrowed = await pool.connect()
    const own = new pg.Client(database.connection)
    await own.connect()
    try {
      for (const tx of [
        borrowed,
        own,
        { query: (text: string, values?: unknown[]) => own.query(text, values) },
      ]) {
        expect(await hub.publish(order, { tx })).toMatchObject({ durability: 'durable' })
      }
    } finally {
      borrowed.release()
      await own.end()
    }
  })
})

test('the nearest name is looked for regardless of case and underscores, and only among those that are near', () => {
  const known = ['orderingKey', 'runAt', 'expiresAt']
  expect(nearestName('ordering_key', known)).toBe('orderingKey')
  expect(nearestName('run-at', known)).toBe('runAt')
  expect(nearestName('expireAt', known)).toBe('expiresAt')
  expect(nearestName('colour', known)).toBeUndefined()
  expect(nearestName('x'.repeat(1_000_000), known)).toBeUndefined()
})

test('a catalogue takes no unknown fields either', async () => {
  const events = defineEvents({ 'order.created': event<object>() })
  const { hub: typed } = await testPosthorn({ database: database.connection, poolMax: 3, events })
  try {
    await expect(typed.publish(given({ ...order, delay: 5 }) as never)).rejects.toThrow(/delay/)
  } finally {
    await typed.stop()
  }
})

function newClient(): PosthornClient {
  return new PosthornClient({ url: 'http://localhost:1', retries: 0, timeoutMs: 100 })
}
