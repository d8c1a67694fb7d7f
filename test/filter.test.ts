import { describe, expect, test } from 'vitest'
import { useServers } from './support/http.ts'

/** Who is owed what by payload and fields, and which lane it goes by: decided where the event is stored. */

const servers = useServers('filter')
const subscriber = { via: 'pull', event_types: ['t', 't.*'] }

async function owedBy(filter: object, events: readonly object[]): Promise<boolean[]> {
  const { call } = await servers.open()
  expect((await call('POST', '/subscribers', { ...subscriber, name: 'q', filter })).status).toBe(201)
  const { json } = await call('POST', '/events/batch', events)
  return json.events.map(({ status }: { status: string }) => status === 'PENDING')
}

const event = (payload: unknown, more: object = {}) => ({ type: 't', payload, ...more })

describe('a filter', () => {
  test.each([
    ['a value', { '/payload/paid': true }, [{ paid: true }, { paid: 'true' }, { paid: false }, {}, 1, null]],
    ['a number by its value', { '/payload': 1 }, [1, 2, '1']],
    ['null', { '/payload/a': null }, [{ a: null }, {}, { a: 0 }]],
    ['any of a list', { '/payload/a': ['x', 2] }, [{ a: 'x' }, { a: 3 }]],
    ['that it is there', { '/payload/a': { exists: true } }, [{ a: null }, {}]],
    ['that it is not there', { '/payload/a': { exists: false } }, [{}, { a: null }]],
    ['a beginning', { '/payload/a': { prefix: 'ab' } }, [{ a: 'abc' }, { a: 'b' }, { a: 1 }]],
    ['a range', { '/payload/n': { gte: 1, lt: 2 } }, [{ n: 1 }, { n: 2 }, { n: '1' }, { n: 0.999 }]],
    [
      'something deep',
      { '/payload/a/1/b~1c': 'x' },
      [{ a: [0, { 'b/c': 'x' }] }, { a: { 1: { 'b/c': 'y' } } }],
    ],
    ['all at once', { '/payload/a': 1, '/payload/b': 2 }, [{ a: 1, b: 2 }, { a: 1 }, { b: 2 }]],
  ])('asks for %s', async (_, filter, payloads) => {
    const expected = payloads.map((__, place) => place === 0)
    expect(
      await owedBy(
        filter,
        payloads.map((payload) => event(payload)),
      ),
    ).toEqual(expected)
  })

  test('may ask for fields of the event', async () => {
    const filter = { '/source/id': '7', '/version': { prefix: '1.' } }
    const source = { type: 'task', id: '7', name: 'n' }
    const events = [
      event(1, { source, version: '1.2' }),
      event(1, { source, version: '2.0' }),
      event(1, { version: '1.2' }),
    ]
    expect(await owedBy(filter, events)).toEqual([true, false, false])
  })

  test('that cannot read a payload takes it for one that does not match, and everybody else gets it', async () => {
    const { call, hub } = await servers.open()
    const filtered = { ...subscriber, name: 'q', filter: { '/payload/a': 'x' } }
    await call('POST', '/subscribers', filtered)
    await call('POST', '/subscribers', { ...subscriber, name: 'all' })
    for (const payload of ['{"b":"\\u0000","a":"x"}', '{"a":1e400}', '{"a":"\\ud800"}', '[1]', '"x"']) {
      const { status, json } = await call('POST', '/events', `{"type":"t","payload":${payload}}`)
      expect(status, payload).toBe(202)
      const deliveries = (await hub.event(json.id))?.deliveries ?? []
      expect(
        deliveries.map(({ name }) => name),
        payload,
      ).toEqual(['all'])
    }
  })

  test('counts from its change on', async () => {
    const { call } = await servers.open()
    const made = await call('POST', '/subscribers', { ...subscriber, name: 'q', filter: { '/payload': 1 } })
    expect(made.json).toMatchObject({ filter: { '/payload': 1 }, ordering_key: null })
    const statusOf = async () => (await call('POST', '/events', event(2))).json.status
    expect(await statusOf()).toBe('COMPLETED')
    const changed = await call('PATCH', `/subscribers/${made.json.id}`, { filter: { '/payload': [1, 2] } })
    expect(changed.json.filter).toEqual({ '/payload': [1, 2] })
    expect(await statusOf()).toBe('PENDING')
    await call('PATCH', `/subscribers/${made.json.id}`, { lease_seconds: 30 })
    expect(await statusOf()).toBe('PENDING')
    expect((await call('PATCH', `/subscribers/${made.json.id}`, { filter: null })).json.filter).toBeNull()
    expect((await call('POST', '/events', event(3))).json.status).toBe('PENDING')
  })
})

describe('an ordering key by pointer', () => {
  test('makes the lanes of its subscription; what has none there is in no order', async () => {
    const { call } = await servers.open()
    const queue = { ...subscriber, name: 'q', ordering_key: '/payload/customer' }
    expect((await call('POST', '/subscribers', queue)).json.ordering_key).toBe('/payload/customer')
    const customers = ['7', 7, 8, true, '', null, { a: 1 }, undefined, 'x'.repeat(256), '7']
    const own = { ordering_key: 'the same for all' }
    const events = customers.map((customer) => event({ customer }, own))
    const ids = (await call('POST', '/events/batch', events)).json.events.map((one: { id: number }) => one.id)
    const lease = async () => {
      const { json } = await call('GET', '/events/subscribe?subscription=q&worker_id=w&limit=100')
      return (json ?? []).map((one: { id: number }) => one.id)
    }
    // '7' and 7 are the same text: the second and the last wait for the first.
    const [first, second, third, fourth, ...rest] = ids
    expect((await lease()).toSorted()).toEqual([first, third, fourth, ...rest.slice(0, -1)])
    expect(await call('POST', `/events/${first}/complete`, { worker_id: 'w' })).toMatchObject({ status: 200 })
    expect(await lease()).toEqual([second])
  })

  test('is kept by what is redriven', async () => {
    const { call, hub, clock } = await servers.open()
    const queue = { ...subscriber, name: 'q', ordering_key: '/payload/k', max_retries: 1 }
    await call('POST', '/subscribers', queue)
    const { id } = (await call('POST', '/events', event({ k: 'a' }))).json
    await call('GET', '/events/subscribe?subscription=q&worker_id=w')
    await call('POST', `/events/${id}/fail`, { worker_id: 'w' })
    const next = (await call('POST', '/events', event({ k: 'a' }))).json.id
    const held = await call('GET', '/events/subscribe?subscription=q&worker_id=w')
    expect(held.json.id).toBe(next)
    const { deadLetters } = await hub.deadLetters()
    await hub.redrive(deadLetters.map((letter) => letter.id))
    await clock.advance(1)
    // Its lane is taken, so it waits.
    expect((await call('GET', '/events/subscribe?subscription=q&worker_id=w')).status).toBe(204)
    await call('POST', `/events/${next}/complete`, { worker_id: 'w' })
    expect((await call('GET', '/events/subscribe?subscription=q&worker_id=w')).json.id).toBe(id)
  })
})
