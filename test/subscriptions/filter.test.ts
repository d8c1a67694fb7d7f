import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'

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

  test.each([
    ['12345678901234567890', '/payload/id', '12345678901234567890'],
    ['[7, 9007199254740993]', '/payload/id[1]', '9007199254740993'],
    ['{"gte": 0.1234567890123456789}', '/payload/id.gte', '0.1234567890123456789'],
    ['{"lt": 1e400}', '/payload/id.lt', '1e400'],
  ])(
    'whose number would be rounded is refused instead of matching other events: %s',
    async (wanted, field, value) => {
      const { call } = await servers.open()
      const filter = `{"/payload/id": ${wanted}}`
      const refused = { status: 422, json: { field: `filter.${field}`, value } }
      const made = `{"via": "pull", "name": "q", "event_types": ["t"], "filter": ${filter}}`
      expect(await call('POST', '/subscribers', made)).toMatchObject(refused)
      const { json } = await call('POST', '/subscribers', { ...subscriber, name: 'q' })
      const path = `/subscribers/${json.id}`
      expect(await call('PATCH', path, `{"filter": ${filter}}`)).toMatchObject(refused)
      expect(await call('POST', `${path}/replay`, `{"filter": ${filter}}`)).toMatchObject(refused)
    },
  )

  test('takes every way to write a number that is exact', async () => {
    const { call } = await servers.open()
    for (const [place, number] of ['-0', '1.50', '15e-1', '100E-2', '9007199254740991', '1e15'].entries()) {
      const filter = `{"/payload/id": [${number}, "12345678901234567890"]}`
      const made = `{"via": "pull", "name": "q${place}", "event_types": ["t"], "filter": ${filter}}`
      expect(await call('POST', '/subscribers', made)).toMatchObject({ status: 201 })
    }
  })

  test('does not take -1, 01 or +1 for a position in an array, but for the name of a member', async () => {
    const { call, hub } = await servers.open()
    const tokens = ['1', '-1', '01', '+1', '00', '-0', ' 1', '1 ', '1.0', '2', '99999999999']
    for (const [place, token] of tokens.entries()) {
      const filter = { [`/payload/a/${token}`]: 'x' }
      const made = await call('POST', '/subscribers', { ...subscriber, name: `q${place}`, filter })
      expect(made.status).toBe(201)
    }
    const filter = { '/tags/-1': { exists: false } }
    await call('POST', '/subscribers', { ...subscriber, name: 'tags', filter })
    const found = async (a: unknown) => {
      const { json } = await call('POST', '/events', event({ a }, { tags: 'a,b' }))
      const names = (await hub.event(json.id))?.deliveries.map(({ name }) => name) ?? []
      expect(names).toContain('tags')
      return tokens.filter((_, place) => names.includes(`q${place}`))
    }
    expect(await found(['x', 'x'])).toEqual(['1'])
    expect(await found(Object.fromEntries(tokens.map((token) => [token, 'x'])))).toEqual(tokens)
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

  test('does not parse a payload once more for each condition and subscriber', async () => {
    const { call, db } = await servers.open()
    const filter = { '/payload/a': { exists: true }, '/payload/b': 2, '/payload/c': ['x', 'y'] }
    for (const name of ['q1', 'q2', 'q3', 'q4']) {
      const queue = { ...subscriber, name, filter, ordering_key: '/payload/a' }
      expect((await call('POST', '/subscribers', queue)).status).toBe(201)
    }
    await db.query(`create sequence ${db.schema}.parsings`)
    await db.query(
      `create or replace function ${db.schema}.readable(document text) returns jsonb language plpgsql volatile as $$
      begin
        perform nextval('${db.schema}.parsings');
        return document::jsonb;
      end $$`,
    )
    await db.query(`alter function ${db.schema}.key_at(text[], text, jsonb, jsonb) rename to key_at_once`)
    await db.query(`create sequence ${db.schema}.keys_read`)
    // A number's text is looked up in the payload, which is another walk through all of it.
    await db.query(
      `create function ${db.schema}.key_at(path text[], payload text, document jsonb, fields jsonb) returns text
      language plpgsql volatile as $$
      begin
        perform nextval('${db.schema}.keys_read');
        return ${db.schema}.key_at_once(path, payload, document, fields);
      end $$`,
    )
    const answer = await call('POST', '/events', event({ a: 1, b: 2, c: 'y' }))
    expect(answer.status).toBe(202)
    const { rows } = await db.query(
      `select cardinality(e.owed) as owed, p.last_value::int as parsings, p.is_called as "isParsed",
        k.last_value::int as "keysRead"
      from ${db.schema}.events e, ${db.schema}.parsings p, ${db.schema}.keys_read k
      where e.id = ${answer.json.id}`,
    )
    expect(rows).toEqual([{ owed: 4, parsings: 1, isParsed: true, keysRead: 1 }])
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

  test('takes a number by its text, as it was written', async () => {
    const { call, db } = await servers.open()
    await call('POST', '/subscribers', { ...subscriber, name: 'q', ordering_key: '/payload/k' })
    for (const number of ['100', '1e2', '-0', '1.50', '12345678901234567890']) {
      await db.query(`select ${db.schema}.publish('t', '{"k": ${number}}')`)
    }
    const { rows } = await db.query<{ key: string }>(
      `select m.ordering_key_value as key from ${db.schema}.messages m
      join ${db.schema}.subscribers s on s.id = m.subscriber_id and s.name = 'q' order by m.event_id`,
    )
    expect(rows.map(({ key }) => key)).toEqual(['100', '1e2', '-0', '1.50', '12345678901234567890'])
  })

  test('is not found at -1, 01 or +1 of an array', async () => {
    const { call, db } = await servers.open()
    for (const [place, name] of ['-1', '01', '+1', '1'].entries()) {
      const queue = { ...subscriber, name: `q${place}`, ordering_key: `/payload/k/${name}` }
      expect((await call('POST', '/subscribers', queue)).status).toBe(201)
    }
    await call('POST', '/events/batch', [event({ k: ['a', 'b'] }), event({ k: [7, 8] })])
    const { rows } = await db.query<{ keys: (string | null)[] }>(
      `select array_agg(m.ordering_key_value order by s.name) as keys from ${db.schema}.messages m
      join ${db.schema}.subscribers s on s.id = m.subscriber_id group by m.event_id order by m.event_id`,
    )
    expect(rows.map(({ keys }) => keys)).toEqual([
      [null, null, null, 'b'],
      [null, null, null, '8'],
    ])
  })

  test('is what messages are ordered by, instead of a key that the event does not have', async () => {
    const { call, db } = await servers.open()
    const made = await call('POST', '/subscribers', { ...subscriber, name: 'q', ordering_key: '/payload/k' })
    await call('POST', '/subscribers', { ...subscriber, name: 'own' })
    const keys = async () => {
      const { rows } = await db.query(
        `select m.ordering_key_value as key, m.status
        from ${db.schema}.messages m
        join ${db.schema}.subscribers s on s.id = m.subscriber_id and s.name = 'q'
        order by m.event_id`,
      )
      return rows
    }
    const payloads = [{ k: 'a' }, { k: 'a' }, { k: 7 }, {}]
    const events = payloads.map((payload) => event(payload, { ordering_key: 'e' }))
    const [first] = (await call('POST', '/events/batch', events)).json.events
    const [a, seven, none] = ['a', '7', null]
    const waiting = (key: string | null) => ({ key, status: 'pending' })
    expect(await keys()).toEqual([a, a, seven, none].map(waiting))
    await call('GET', '/events/subscribe?subscription=q&worker_id=w')
    expect(await keys()).toEqual([{ key: a, status: 'delivering' }, ...[a, seven, none].map(waiting)])
    await call('POST', `/events/${first.id}/complete`, { worker_id: 'w' })
    expect(await keys()).toEqual([{ key: a, status: 'delivered' }, ...[a, seven, none].map(waiting)])
    // What waits stays in the lane that it was put into.
    await call('PATCH', `/subscribers/${made.json.id}`, { ordering_key: '/type' })
    expect((await keys()).slice(1)).toEqual([a, seven, none].map(waiting))
    const { rows } = await db.query(
      `select distinct m.ordering_key_value as key from ${db.schema}.messages m
      join ${db.schema}.subscribers s on s.id = m.subscriber_id and s.name = 'own'`,
    )
    expect(rows).toEqual([{ key: 'e' }])
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
