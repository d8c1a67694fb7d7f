import { CloudEvent, type CloudEventV1, emitterFor, HTTP, type Message, Mode } from 'cloudevents'
import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { traceparent } from './cloudevents.ts'

/** CloudEvents through the whole server, written and read by the official SDK. */

const servers = useServers('publish_cloudevents')
const batchType = 'application/cloudevents-batch+json'
const asCloudEvent = { accept: 'application/cloudevents+json' }

const order = (more: Partial<CloudEventV1<unknown>> = {}) =>
  new CloudEvent<unknown>({
    ...{
      type: 'order.created',
      source: '/shop',
      id: 'A-1',
      subject: 'order 42',
      time: '2026-01-02T03:04:05.678Z',
    },
    ...{
      datacontenttype: 'application/json',
      dataschema: 'https://example.com/order',
      partitionkey: 'customer-7',
    },
    ...{ traceparent, comexampleother: 'kept', data: { order: 42, total: '19.90' }, ...more },
  })

/** What the SDK would send with any HTTP library. */
function send(server: TestServer, event: CloudEvent<unknown>, mode: Mode) {
  const emit = emitterFor(
    ({ headers, body }: Message) =>
      server.call('POST', '/events', body as string, headers as Record<string, string>),
    { mode },
  )
  return emit(event) as ReturnType<TestServer['call']>
}

async function readBack(server: TestServer, id: number): Promise<CloudEventV1<unknown>> {
  const { status, headers, text } = await server.call('GET', `/events/${id}`, undefined, asCloudEvent)
  expect(status).toBe(200)
  return HTTP.toEvent({ headers: Object.fromEntries(headers), body: text }) as CloudEventV1<unknown>
}

test.each([Mode.STRUCTURED, Mode.BINARY])(
  'the SDK publishes in %s mode, repeats, and reads the same event',
  async (mode) => {
    const server = await servers.open()
    const event = order()
    const first = await send(server, event, mode)
    expect(first.status).toBe(202)
    expect(first.json).toMatchObject({
      ...{ type: 'order.created', payload: event.data, ordering_key: 'customer-7', traceparent },
      ...{ timestamp: event.time, attributes: { id: 'A-1', source: '/shop', comexampleother: 'kept' } },
    })
    const again = await send(server, event, mode)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again).toMatchObject({ status: 202, text: first.text })
    const read = await readBack(server, first.json.id)
    expect(read).toEqual(order({ posthornid: String(first.json.id) }))
  },
)

test('the same id from another source is another event; the same from the same with other data is refused', async () => {
  const server = await servers.open()
  for (const mode of [Mode.STRUCTURED, Mode.BINARY]) {
    const id = `id of ${mode}`
    const first = await send(server, order({ id }), mode)
    const other = await send(server, order({ id, source: '/other' }), mode)
    expect(other.json.id).not.toBe(first.json.id)
    expect(await send(server, order({ id, data: { order: 43 } }), mode)).toMatchObject({
      ...{ status: 422, json: { code: 'idempotency_mismatch', event_id: first.json.id } },
    })
  }
})

test('a CloudEvent that comes with other idempotency keys is not stored once for each of them', async () => {
  const server = await servers.open()
  const event = JSON.stringify(order())
  const publish = (headers: Record<string, string>) =>
    server.call('POST', '/events', event, { 'content-type': 'application/cloudevents+json', ...headers })
  const first = await publish({})
  for (const name of ['Idempotency-Key', 'X-Idempotency-Key']) {
    const refusal = { status: 422, json: { code: 'bad_event', field: name, value: 'another' } }
    expect(await publish({ [name]: 'another' })).toMatchObject(refusal)
    const same = await publish({ [name]: '["/shop","A-1"]' })
    expect(same).toMatchObject({ status: 202, text: first.text })
    expect(same.headers.get('idempotency-replayed')).toBe('true')
  }
  expect((await server.hub.listEvents()).total).toBe(1)
})

test('a batch is stored as a whole, at either address, and can be repeated', async () => {
  const server = await servers.open()
  const headers = { 'content-type': batchType }
  for (const [place, path] of ['/events', '/events/batch'].entries()) {
    const events = [1, 2, 3].map((n) => order({ id: `${place}-${n}`, data: n }))
    const first = await server.call('POST', path, JSON.stringify(events), headers)
    expect(first.status).toBe(201)
    expect(first.json.events.map((event: { payload: number }) => event.payload)).toEqual([1, 2, 3])
    const again = await server.call('POST', path, JSON.stringify(events), headers)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.text).toBe(first.text)
    for (const [n, { id }] of first.json.events.entries()) {
      expect(await readBack(server, id)).toEqual(
        order({ id: `${place}-${n + 1}`, data: n + 1, posthornid: String(id) }),
      )
    }
  }
  const broken = [order({ id: 'x' }), { ...order({ id: 'y' }).toJSON(), type: 'no type' }]
  const answer = await server.call('POST', '/events', JSON.stringify(broken), headers)
  expect(answer).toMatchObject({ status: 422, json: { field: '[1].type', value: 'no type' } })
  expect((await server.hub.listEvents()).total).toBe(6)
})

test('a batch may be longer than an event, and no longer than a batch', async () => {
  const server = await servers.open()
  const headers = { 'content-type': batchType }
  const events = [1, 2, 3].map((n) => order({ id: `${n}`, data: 'x'.repeat(1_000_000) }))
  expect(await server.call('POST', '/events', JSON.stringify(events), headers)).toMatchObject({ status: 201 })
  const tooLong = await server.call('POST', '/events', Buffer.alloc(33 * 1_048_576, 32), headers)
  expect(tooLong).toMatchObject({ status: 413, json: { code: 'body_too_large', bytes_max: 32 * 1_048_576 } })
})

test('data that is no JSON comes back as it was', async () => {
  const server = await servers.open()
  const text = order({ id: 'text', datacontenttype: 'text/plain; charset=utf-8', data: 'Grüße "x"' })
  const bytes = order({ id: 'bytes', datacontenttype: 'image/png', data: Uint8Array.from([0, 255, 1, 128]) })
  const none = new CloudEvent<unknown>({
    type: 'a.b',
    source: '/s',
    id: 'none',
    time: '2026-01-02T03:04:05.678Z',
  })
  for (const mode of [Mode.STRUCTURED, Mode.BINARY]) {
    const inMode = (event: CloudEvent<unknown>) =>
      event.cloneWith({ source: `/${mode}` }) as CloudEvent<unknown>
    const ids = []
    for (const event of [text, bytes, none]) {
      const { status, json } = await send(server, inMode(event), mode)
      expect(status).toBe(202)
      ids.push(json.id)
    }
    const [readText, readBytes, readNone] = await Promise.all(ids.map((id) => readBack(server, id)))
    expect(readText?.data).toBe('Grüße "x"')
    expect(Buffer.from(readBytes?.data as Uint8Array)).toEqual(Buffer.from([0, 255, 1, 128]))
    expect(readNone?.data).toBeUndefined()
  }
})

test('a worker can ask for CloudEvents too, with all it needs to settle them', async () => {
  const server = await servers.open()
  await server.hub.subscribe('order.*', { name: 'orders' })
  await send(server, order(), Mode.BINARY)
  await server.call('POST', '/events', { type: 'order.paid', payload: { n: 1 } })
  const path = '/events/subscribe?subscription=orders&worker_id=w'
  const first = await server.call('GET', path, undefined, asCloudEvent)
  const event = HTTP.toEvent({ headers: Object.fromEntries(first.headers), body: first.text })
  expect(event).toMatchObject({
    id: 'A-1',
    source: '/shop',
    data: { order: 42 },
    attempt: 1,
    subscription: 'orders',
  })
  const many = await server.call('GET', `${path}&limit=10`, undefined, { accept: batchType })
  expect(many.headers.get('content-type')).toContain(batchType)
  expect(many.json).toMatchObject([{ type: 'order.paid', source: '/posthorn', data: { n: 1 } }])
  for (const { posthornid, leasetoken } of [event as CloudEvent<unknown>, many.json[0]]) {
    const body = { lease_token: leasetoken }
    expect(await server.call('POST', `/events/${posthornid}/complete`, body)).toMatchObject({ status: 200 })
  }
})

test('what is wrong with a CloudEvent is told by its name there', async () => {
  const server = await servers.open()
  const json = order().toJSON() as Record<string, unknown>
  const cases: [change: Record<string, unknown>, field: string][] = [
    [{ specversion: '0.3' }, 'specversion'],
    [{ id: undefined }, 'id'],
    [{ time: 'now' }, 'time'],
    [{ partitionkey: '' }, 'partitionkey'],
    [{ expirytime: '2026-02-30T00:00:00Z' }, 'expirytime'],
    [{ fooBar: 'x' }, 'fooBar'],
    [{ data_base64: '?', data: undefined }, 'data_base64'],
  ]
  for (const [change, field] of cases) {
    const answer = await server.call(
      'POST',
      '/events',
      { ...json, ...change },
      {
        'content-type': 'application/cloudevents+json',
      },
    )
    expect({ status: answer.status, field: answer.json.field }).toEqual({ status: 422, field })
  }
  const lone = await server.call('POST', '/events', '1', { 'ce-type': 'a' })
  expect(lone).toMatchObject({ status: 422, json: { field: 'specversion' } })
})
