import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** Up to a thousand events in one call: all or nothing, in order. */

const servers = useServers('publish_batch')
const fact = { type: 'a.b', payload: null }
const batch = (server: TestServer, body: unknown, headers?: Record<string, string>) =>
  server.call('POST', '/events/batch', body, headers)
const total = async ({ hub }: TestServer) => (await hub.listEvents()).total
const idsOf = (json: { events: { id: number }[] }) => json.events.map((event) => event.id)

test('an array or an object of events is stored in the order given', async () => {
  const server = await servers.open()
  const events = [fact, { title: 't', tags: 'x', payload: { n: 2 } }, { ...fact, group_id: 'g' }]
  for (const body of [events, { events }]) {
    const { status, json } = await batch(server, body)
    expect(status).toBe(201)
    expect(json.events).toMatchObject([
      { type: 'a.b', tags: null, status: 'COMPLETED' },
      { title: 't', tags: 'x', payload: { n: 2 }, status: 'PENDING', max_retries: 3 },
      { ordering_key: 'g' },
    ])
    expect(idsOf(json)).toEqual([...idsOf(json)].sort((a, b) => a - b))
  }
  expect(await total(server)).toBe(6)
})

test('a thousand may come at once, and keep their order in their lane', async () => {
  const server = await servers.open()
  const events = Array.from({ length: 1000 }, (_, n) => ({
    title: 't',
    tags: 'x',
    group_id: `${n % 2}`,
    payload: n,
  }))
  const { status, json } = await batch(server, events)
  expect(status).toBe(201)
  expect(json.events.map((event: { payload: number }) => event.payload)).toEqual(
    events.map(({ payload }) => payload),
  )
  const seen: number[] = []
  for (let n = 0; n < 20; n++) {
    const { json: event } = await server.call('GET', '/events/subscribe?tags=x&worker_id=w')
    seen.push(event.payload)
    await server.call('POST', `/events/${event.id}/complete`, { lease_token: event.lease_token })
  }
  for (const lane of [0, 1]) {
    const ofLane = seen.filter((payload) => payload % 2 === lane)
    expect(ofLane).toEqual(ofLane.map((_, place) => 2 * place + lane))
  }
})

test('one bad event among many: nothing is stored, and it is named with its place', async () => {
  const server = await servers.open()
  const good = Array.from({ length: 5 }, () => ({ ...fact, tags: 'x' }))
  const cases: [bad: unknown, status: number, code: string, field: string][] = [
    [{ type: 'a b', payload: 1 }, 422, 'bad_event', 'events[3].type'],
    [{ pattern: '', payload: 1 }, 422, 'bad_event', 'events[3].pattern'],
    [{ ...fact, group_id: '' }, 422, 'bad_event', 'events[3].group_id'],
    [{ ...fact, source: { type: 7 } }, 422, 'bad_event', 'events[3].source.type'],
    [{ ...fact, tags: [''] }, 422, 'bad_event', 'events[3].tags'],
    [{ ...fact, fooBar: 1 }, 422, 'bad_event', 'events[3].fooBar'],
    [{ type: 'a' }, 422, 'bad_event', 'events[3].payload'],
    [7, 400, 'bad_json', 'events[3]'],
    [{ ...fact, payload: 'x'.repeat(1_048_576) }, 413, 'payload_too_large', 'events[3]'],
  ]
  for (const [bad, status, code, field] of cases) {
    const answer = await batch(server, [...good.slice(0, 3), bad, ...good.slice(3)])
    expect({ status: answer.status, code: answer.json.code, field: answer.json.field }).toEqual({
      ...{ status, code, field },
    })
  }
  const deep = `[${JSON.stringify(fact)},{"type":"a","payload":${'['.repeat(65)}${']'.repeat(65)}}]`
  expect(await batch(server, deep)).toMatchObject({ status: 400, json: { field: 'events[1]' } })
  const cut = '[{"type":"a","payload":1},{"type":"a","payload":}]'
  expect(await batch(server, cut)).toMatchObject({ status: 400, json: { field: 'events[1]' } })
  expect(await total(server)).toBe(0)
  expect(await server.call('GET', '/events/subscribe?tags=x&worker_id=w')).toMatchObject({ status: 204 })
})

test('no events, too many, and what is no batch are refused', async () => {
  const server = await servers.open()
  const cases: [body: unknown, status: number, field: string | undefined][] = [
    [[], 422, 'events'],
    [{ events: [] }, 422, 'events'],
    [Array.from({ length: 1001 }, () => fact), 422, 'events'],
    [{ events: Array.from({ length: 1001 }, () => fact) }, 422, 'events'],
    [{ events: fact }, 422, 'events'],
    [{ events: null }, 422, 'events'],
    [{}, 422, 'events'],
    [fact, 422, 'type'],
    [{ events: [fact], atomic: false }, 422, 'atomic'],
    ['', 400, undefined],
    ['null', 400, undefined],
    ['[', 400, undefined],
    [`[${JSON.stringify(fact)}`, 400, undefined],
    [`[${JSON.stringify(fact)}] []`, 400, undefined],
  ]
  for (const [body, status, field] of cases) {
    const answer = await batch(server, body)
    expect({ status: answer.status, field: answer.json.field }).toEqual({ status, field })
  }
  expect(await total(server)).toBe(0)
})

test('each event may have an idempotency key of its own, and a repeat gets the same events', async () => {
  const server = await servers.open()
  const events = ['a', 'b', 'c'].map((key, n) => ({ ...fact, tags: 'x', idempotency_key: key, payload: n }))
  const unwanted = { ...fact, require_route: true, idempotency_key: 'd' }
  const first = await batch(server, [...events, unwanted])
  expect(first.json.events[3].status).toBe('FAILED')
  expect(first.headers.get('idempotency-replayed')).toBeNull()
  const again = await batch(server, [...events, unwanted])
  expect(again).toMatchObject({ status: 201, text: first.text })
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  const part = await batch(server, [events[2], { ...fact, tags: 'x' }, events[0]])
  expect(part.headers.get('idempotency-replayed')).toBeNull()
  const [a, , c] = idsOf(first.json)
  expect(idsOf(part.json)).toEqual([c, expect.any(Number), a])
  expect(await total(server)).toBe(5)
  const alone = await server.call('POST', '/events', JSON.stringify(events[1]))
  expect(alone.headers.get('idempotency-replayed')).toBe('true')
})

test('a key that was used for another event undoes the whole batch', async () => {
  const server = await servers.open()
  await batch(server, [{ ...fact, idempotency_key: 'k' }])
  const other = await batch(server, [fact, { ...fact, idempotency_key: 'k', payload: 2 }, fact])
  expect(other).toMatchObject({ status: 422, json: { code: 'idempotency_mismatch', key: 'k' } })
  expect(await total(server)).toBe(1)
})

test('a key twice in one batch is one event if both are the same, and an error if not', async () => {
  const server = await servers.open()
  const event = { ...fact, idempotency_key: 'k' }
  const { json } = await batch(server, [event, event])
  expect(new Set(idsOf(json)).size).toBe(1)
  const differing = [
    { ...event, idempotency_key: 'l' },
    { ...fact, payload: 2, idempotency_key: 'l' },
  ]
  expect(await batch(server, differing)).toMatchObject({ status: 422, json: { key: 'l' } })
  expect(await total(server)).toBe(1)
})

test('a header with an idempotency key is refused where it would not count', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'mine' }
  const keyed = { ...fact, idempotency_key: 'k' }
  expect(await batch(server, [keyed, fact], headers)).toMatchObject({
    ...{ status: 422, json: { field: 'events[1].idempotency_key' } },
  })
  expect(await batch(server, [keyed], headers)).toMatchObject({ status: 201 })
  expect(await total(server)).toBe(1)
})
