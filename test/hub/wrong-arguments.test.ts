import { describe, expect, test } from 'vitest'
import { fromDrizzle } from '../../src/adapters/drizzle.ts'
import { fromKnex } from '../../src/adapters/knex.ts'
import { fromKysely } from '../../src/adapters/kysely.ts'
import { fromPostgresJs } from '../../src/adapters/postgres-js.ts'
import { fromPrisma } from '../../src/adapters/prisma.ts'
import { PosthornClient } from '../../src/client/index.ts'
import { readConfig } from '../../src/config.ts'
import { createPosthorn } from '../../src/index.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { useHubs } from '../support/hub.ts'

const hubs = useHubs('wrong_arguments')

/** As JavaScript would pass it. */
const given = <T>(value: unknown) => value as T

const failing = () => {
  throw new Error('no')
}

test.each(['foo', undefined, 'constructor'])(
  'unblocking a lane with the verb %s does not skip its head',
  async (verb) => {
    const { hub, drain } = await hubs.open()
    hub.on('t', { name: 'n', onExhausted: 'block', retry: { failuresMax: 1 } }, failing)
    await hub.start()
    await hub.publishMany([1, 2].map((payload) => ({ type: 't', payload, orderingKey: 'k' })))
    await drain()
    const refusal = { code: 'BAD_OPTION', details: { option: 'verb' } }
    await expect(hub.unblock('n', 'k', given(verb))).rejects.toMatchObject(refusal)
    expect(await hub.lanes.get('n', 'k')).toMatchObject({ status: 'blocked' })
  },
)

describe('retrying dead letters without a filter does not retry them all', () => {
  test.each([[{}], [{ subscription: undefined }], [{ limit: 5 }], [{ includeRedriven: true }]])(
    '%o',
    async (filter) => {
      const { hub, drain } = await hubs.open()
      hub.on('t', { name: 'n', retry: { failuresMax: 1 } }, failing)
      await hub.start()
      await hub.publish({ type: 't', payload: 1 })
      await drain()
      await expect(hub.retryDeadLetters(given(filter))).rejects.toMatchObject({ code: 'BAD_OPTION' })
      expect((await hub.deadLetters()).total).toBe(1)
      expect((await hub.retryDeadLetters({ since: new Date(0) })).redriven).toHaveLength(1)
    },
  )
})

test('a list whose filter by tags or ordering key is none does not show every event', async () => {
  const { hub } = await hubs.open()
  await hub.publish({ type: 't', tags: ['a'], payload: 1 })
  for (const filter of [{ tags: 5 }, { tags: { a: true } }, { tags: null }]) {
    const refusal = { code: 'BAD_OPTION', details: { option: 'tags' } }
    await expect(hub.listEvents(given(filter))).rejects.toMatchObject(refusal)
    await expect(hub.poll(given(filter))).rejects.toMatchObject(refusal)
  }
  await expect(hub.listEvents(given({ orderingKey: 5 }))).rejects.toMatchObject({ code: 'BAD_OPTION' })
  expect((await hub.listEvents({ tags: ['a'] })).total).toBe(1)
})

describe('an argument of the wrong form is refused by name, not by an error of JavaScript or PostgreSQL', () => {
  const uuid = '0198c6a0-0000-7000-8000-000000000000'
  const calls: [call: string, option: string, call_: (hub: Posthorn) => unknown][] = [
    ['on(5)', 'type pattern', (hub) => hub.on(given<string>(5), { name: 'a' }, () => undefined)],
    ['subscribe(5)', 'type pattern', (hub) => hub.subscribe(given(5), { name: 'a' })],
    ['subscribe({})', 'type pattern', (hub) => hub.subscribe(given({}), { name: 'a' })],
    ['publishMany({})', 'events', (hub) => hub.publishMany(given({}))],
    ['searchPayloads({})', 'paths', (hub) => hub.searchPayloads(given({}))],
    ['searchPayloads([5])', 'paths', (hub) => hub.searchPayloads(given({ paths: [5] }))],
    ['finalize(1, text)', 'errors', (hub) => hub.finalize(1, given('text'))],
    ['finalize(1, null)', 'errors', (hub) => hub.finalize(1, given(null))],
    ['finalize(x)', 'eventId', (hub) => hub.finalize(given('x'))],
    ['event(x)', 'eventId', (hub) => hub.event(given('x'))],
    ['event(1.5)', 'eventId', (hub) => hub.event(1.5)],
    ['cancel(x)', 'eventIds', (hub) => hub.cancel(given('x'))],
    ['cancel([x])', 'eventId', (hub) => hub.cancel(given(['x']))],
    ['reset(x)', 'eventId', (hub) => hub.reset(given('x'), 'why')],
    ['purge(x)', 'eventId', (hub) => hub.purge(given('x'), 'why')],
    ['redrive(x)', 'deadLetterIds', (hub) => hub.redrive(given('x'))],
    ['redrive([x])', 'deadLetterId', (hub) => hub.redrive([uuid, 'x'])],
    [
      'retry.delaysMs',
      'retry.delaysMs',
      (hub) => hub.subscribe('a', given({ name: 'a', retry: { kind: 'schedule', failuresMax: 3 } })),
    ],
    ['retry.kind', 'retry.kind', (hub) => hub.subscribe('a', given({ name: 'a', retry: { kind: 'foo' } }))],
    ['createPosthorn({ events: 5 })', 'events', () => createPosthorn(given<object>({ events: 5 }))],
    ['createPosthorn({ events: {} })', 'events', () => createPosthorn(given<object>({ events: {} }))],
    ['createPosthorn({ database: 5 })', 'database', () => createPosthorn(given<object>({ database: 5 }))],
    [
      'createPosthorn({ schema: 5 })',
      'schema',
      () => createPosthorn(given<object>({ database: '', schema: 5 })),
    ],
    ['createPosthorn([])', 'createPosthorn', () => createPosthorn(given<object>([]))],
    ['createPosthorn({ log: 5 })', 'log', () => createPosthorn(given<object>({ log: 5 }))],
    ['createPosthorn({ log: {} })', 'log', () => createPosthorn(given<object>({ log: {} }))],
    ['createPosthorn({ log: true })', 'log', () => createPosthorn(given<object>({ log: true }))],
    [
      'createPosthorn({ allowCidrs: 5 })',
      'allowCidrs',
      () => createPosthorn(given<object>({ allowCidrs: 5 })),
    ],
    [
      'createPosthorn({ allowCidrs: [5] })',
      'allowCidrs',
      () => createPosthorn(given<object>({ allowCidrs: [5] })),
    ],
    ['publish(event, [])', 'publish', (hub) => hub.publish({ type: 'a', payload: 1 }, given([]))],
    ['cancel(ids, {})', 'reason', (hub) => hub.cancel([1], given({ reson: 'x' }))],
    ['reset(id, {})', 'reason', (hub) => hub.reset(1, given({ reason: 'x' }))],
    ['purge(id, {})', 'reason', (hub) => hub.purge(1, given({ reason: 'x' }))],
    ['client.publishMany({})', 'events', () => newClient().publishMany(given({}))],
    ['client.worker(a*)', 'type pattern', () => newClient().worker({ tags: 'a' }, { 'a*': () => undefined })],
  ]
  test('each of them', async () => {
    const { hub } = await hubs.open()
    const answers = await Promise.all(
      calls.map(async ([call, , ask]) => [call, await refusedOption(() => ask(hub))]),
    )
    expect(answers).toEqual(calls.map(([call, option]) => [call, option]))
  })

  test('what has the right form and names nothing is answered as before', async () => {
    const { hub } = await hubs.open()
    expect(await hub.event(99)).toBeUndefined()
    expect(await hub.cancel([99])).toEqual([])
    expect(await hub.redrive([uuid])).toEqual([])
    expect(await hub.finalize(99)).toBeUndefined()
  })
})

test.each([
  ['rows without an object around them', []],
  ['nothing', undefined],
  ['no rows', { rows: [] }],
  ['rows without columns', { rows: [{}] }],
  ['rows that are none', { rows: [null] }],
  ['the row of another statement', { rows: [{ places: '2', ids: '1' }] }],
])('a tx whose query gives %s is refused by name', async (_, answer) => {
  const { hub } = await hubs.open()
  const tx = { query: async () => given<{ rows: unknown[] }>(answer) }
  const refusal = { code: 'BAD_OPTION', details: { option: 'tx' } }
  await expect(hub.publish({ type: 't', payload: 1 }, { tx })).rejects.toMatchObject(refusal)
})

test('an event of a batch that is none is refused with its place, not left out', async () => {
  const { hub } = await hubs.open()
  const event = { type: 't', payload: 1 }
  const batches: [events: unknown, field: string][] = [
    [Object.assign([], { 1: event }), 'events[0]'],
    [[event, null], 'events[1]'],
    [[event, { ...event, delay: 5 }], 'events[1].delay'],
  ]
  for (const [events, field] of batches) {
    const refusal = { code: 'BAD_EVENT', details: { field } }
    await expect(hub.publishMany(given(events))).rejects.toMatchObject(refusal)
  }
  expect((await hub.listEvents()).total).toBe(0)
})

test('an ordering key that is no pointer is refused by the name it has in the library', async () => {
  const { hub } = await hubs.open()
  const refusal = { code: 'BAD_FIELD', details: { field: 'orderingKey' } }
  const options = { name: 'a', orderingKey: 'payload.a' }
  await expect(hub.subscribe('a', options)).rejects.toMatchObject(refusal)
  expect(() => hub.on('a', options, () => undefined)).toThrow(/Expected orderingKey to be a JSON pointer/)
})

test.each([-1, 'x', 1.5, Number.NaN])('the clock of tests is not moved by %s', async (ms) => {
  const { clock } = await hubs.open()
  expect(await refusedOption(() => clock.advance(given(ms)))).toBe('ms')
})

test('a database that is named by an empty text is the embedded one, or that of DATABASE_URL', () => {
  const url = 'postgres://db.example/hub'
  expect(readConfig({ database: '' }, {}).database).toBeUndefined()
  expect(readConfig({ database: '' }, { DATABASE_URL: '' }).database).toBeUndefined()
  expect(readConfig({ database: '' }, { DATABASE_URL: url }).database).toBe(url)
})

test('what would make a subscription that is owed nothing, or end one that cannot be ended, is refused', async () => {
  const { hub } = await hubs.open()
  expect(await refusedOption(() => hub.on([], { name: 'n' }, failing))).toBe('type pattern')
  expect(await refusedOption(() => hub.subscribe([], { name: 'n' }))).toBe('type pattern')
  expect(await refusedOption(() => hub.unsubscribe('work'))).toBe('name')
  expect((await hub.subscriptions()).map(({ name }) => name)).toEqual(['work'])
})

test.each([
  ['fromKnex', fromKnex],
  ['fromDrizzle', fromDrizzle],
  ['fromKysely', fromKysely],
  ['fromPrisma', fromPrisma],
  ['fromPostgresJs', fromPostgresJs],
])('%s refuses by name what is no transaction of its library', async (_, adapt) => {
  for (const wrong of [null, undefined, {}]) {
    expect(await refusedOption(() => adapt(given(wrong)))).toBe('tx')
  }
})

test('an adapter that is given the transaction of another library says whose it is', () => {
  const trx = { raw: () => undefined, isTransaction: true }
  expect(() => fromKysely(given(trx))).toThrow('a transaction of Kysely, got an object of Knex')
})

async function refusedOption(ask: () => unknown): Promise<unknown> {
  try {
    await ask()
    return 'accepted'
  } catch (error) {
    const { code, details, message } = error as Error & { code?: string; details?: { option?: string } }
    return code === 'BAD_OPTION' ? details?.option : message
  }
}

function newClient(): PosthornClient {
  return new PosthornClient({ url: 'http://localhost:1', retries: 0, timeoutMs: 100 })
}
