import { describe, expect, test } from 'vitest'
import { listLanes } from '../../src/deliveries/list-lanes.ts'
import { useServers } from '../support/http.ts'
import { isTime, type Json } from './pulling.ts'
import { Repairing } from './repairing.ts'

const servers = useServers('lanes')
const open = async () => new Repairing(await servers.open())

const unknown = '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'

/** A lane of three, whose head waits for its retry. */
async function retrying(api: Repairing, fields: object = {}) {
  const id = await api.subscriber('s', fields)
  const events = [
    await api.note({ ordering_key: 'k' }),
    await api.note({ ordering_key: 'k' }),
    await api.note({ ordering_key: 'k' }),
  ]
  await api.fail(await api.take('s'))
  return { id, events, path: `/subscribers/${id}/lanes/k` }
}

/** A lane of three, whose head is buried. */
async function blocked(api: Repairing) {
  const id = await api.subscriber('s', { on_exhausted: 'block' })
  const events = [await api.buried('s', { ordering_key: 'k' })]
  for (let count = 0; count < 2; count++) events.push(await api.note({ ordering_key: 'k' }))
  return { id, events, path: `/subscribers/${id}/lanes/k` }
}

test.each(['.', '..', '-', 'a/b'])('a lane named %s can be read and repaired', async (key) => {
  const api = await open()
  const id = await api.subscriber('s', { on_exhausted: 'block' })
  const head = await api.buried('s', { ordering_key: key })
  await api.note({ ordering_key: key })
  const lane = `/subscribers/${id}/lanes/-`
  const query = `?key=${encodeURIComponent(key)}`
  expect(await api.ask('GET', lane + query)).toMatchObject({ ordering_key: key, head_event_id: head })
  const skipped = { ordering_key: key, event_id: head, done: 'skipped' }
  expect(await api.ask('POST', `${lane}/skip${query}`)).toEqual(skipped)
  const refused = await api.server.call('GET', `/subscribers/${id}/lanes/k${query}`)
  expect(refused).toMatchObject({ status: 422, json: { field: 'key', value: key } })
})

describe('the lanes of a subscriber', () => {
  test('are listed by key with what each waits for', async () => {
    const api = await open()
    const id = await api.subscriber('s', { on_exhausted: 'block' })
    const path = `/subscribers/${id}/lanes`
    const stopped = await api.buried('s', { ordering_key: 'blocked' })
    await api.note({ ordering_key: 'blocked' })
    const retried = await api.note({ ordering_key: 'retrying' })
    for (let count = 0; count < 3; count++) await api.note({ ordering_key: 'retrying' })
    await api.fail(await api.take('s'))
    const held = await api.note({ ordering_key: 'delivering' })
    await api.take('s')
    const next = await api.note({ ordering_key: 'waiting' })
    const { lanes } = await api.ask('GET', path)
    expect(lanes).toEqual([
      {
        ...{ ordering_key: 'blocked', status: 'blocked', head_event_id: stopped, waiting: 1, since: isTime },
        ...{ next_try_at: null, last_error: 'no luck' },
        head_delivery_id: (await api.delivery(stopped)).id,
        summary: expect.stringMatching(
          new RegExp(`^blocked \\d+ (s|min) by event ${stopped}, 1 waiting, until somebody decides$`),
        ),
      },
      expect.objectContaining({
        ...{
          ordering_key: 'delivering',
          status: 'delivering',
          head_event_id: held,
          waiting: 0,
          since: isTime,
        },
      }),
      expect.objectContaining({
        ...{
          ordering_key: 'retrying',
          status: 'retrying',
          head_event_id: retried,
          waiting: 3,
          since: isTime,
        },
        ...{ next_try_at: isTime, last_error: 'no luck' },
      }),
      expect.objectContaining({
        ...{ ordering_key: 'waiting', status: 'waiting', head_event_id: next, waiting: 0, next_try_at: null },
        summary: `event ${next} is next, 0 waiting`,
      }),
    ])
    for (const lane of lanes) {
      const page = await api.ask('GET', `${path}?status=${lane.status}`)
      expect(page.lanes.map((one: Json) => one.ordering_key)).toEqual([lane.ordering_key])
      expect(await api.ask('GET', `${path}/${lane.ordering_key}`)).toMatchObject({ status: lane.status })
    }
  })

  test('say for how long, and when the next try is', async () => {
    const api = await open()
    const { path, events } = await retrying(api, { retry_delay_seconds: 3600 })
    await api.server.clock.advance(14 * 60_000 + 5_000)
    const { summary, next_try_at } = await api.ask('GET', path)
    const time = next_try_at.slice(11, 16)
    expect(summary).toMatch(
      new RegExp(
        `^blocked 14 min by event ${events[0]}, 2 waiting, next try (\\d{4}-\\d\\d-\\d\\d )?${time}$`,
      ),
    )
  })

  test('tell a head that snoozes from one that failed', async () => {
    const api = await open()
    const id = await api.subscriber('s')
    await api.note({ ordering_key: 'k' })
    const { lease_token, id: event_id } = await api.take('s')
    await api.settle([{ event_id, lease_token, outcome: 'snooze', after_ms: 60_000 }])
    const lane = await api.ask('GET', `/subscribers/${id}/lanes/k`)
    expect(lane).toMatchObject({ status: 'retrying', last_error: null, next_try_at: isTime })
  })

  test('are gone when they are empty', async () => {
    const api = await open()
    const id = await api.subscriber('s')
    await api.note({ ordering_key: 'k' })
    await api.workOff('s')
    expect(await api.ask('GET', `/subscribers/${id}/lanes`)).toEqual({ lanes: [], limit: 20 })
    const { json } = await api.server.call('GET', `/subscribers/${id}/lanes/k`)
    expect(json).toMatchObject({ status: 404, detail: 'There is no lane k.' })
  })

  test('are paged by key, whatever a key is made of', async () => {
    const api = await open()
    const id = await api.subscriber('s')
    const keys = ['a b', 'a/b?c=d&e#f', 'ä:😀', 'x'.repeat(255), '😀'.repeat(255), '%2F', 'desc:1']
    for (const ordering_key of keys) await api.note({ ordering_key })
    const found: string[] = []
    let path: string | undefined = `/subscribers/${id}/lanes?limit=2`
    while (path !== undefined) {
      const { json, headers } = await api.server.call('GET', path)
      found.push(...json.lanes.map((one: Json) => one.ordering_key))
      path = headers.get('link')?.match(/^<([^>]+)>; rel="next"$/)?.[1]
    }
    expect([...found].sort()).toEqual([...keys].sort())
    for (const key of keys) {
      const lane = await api.ask('GET', `/subscribers/${id}/lanes/${encodeURIComponent(key)}`)
      expect(lane.ordering_key).toBe(key)
    }
  })

  test('that match are found though a call looks at few', async () => {
    const api = await open()
    await api.subscriber('s', { on_exhausted: 'block' })
    await api.buried('s', { ordering_key: 'z' })
    for (const ordering_key of ['a', 'b', 'c', 'd']) await api.note({ ordering_key })
    const { db, hub } = api.server
    await hub.lanes.list('s')
    const first = await listLanes(db, 1, { status: 'blocked' }, { examinedMax: 3 })
    expect(first).toMatchObject({ lanes: [], nextCursor: expect.any(String) })
    const cursor = first.nextCursor as string
    const { lanes } = await listLanes(db, 1, { status: 'blocked', cursor }, { examinedMax: 3 })
    expect(lanes.map(({ orderingKey }) => orderingKey)).toEqual(['z'])
  })

  test.each([
    ['lanes?status=lost', 422, 'status'],
    ['lanes?cursor=x', 422, 'cursor'],
    ['lanes?order=desc', 422, 'order'],
    [`lanes/${'x'.repeat(256)}`, 422, 'key'],
    ['lanes/%00', 422, 'key'],
  ])('refuse %s', async (rest, expected, name) => {
    const api = await open()
    const id = await api.subscriber('s')
    const { status, json } = await api.server.call('GET', `/subscribers/${id}/${rest}`)
    expect([status, json.field ?? json.option]).toEqual([expected, name])
  })

  test('of nobody are 404', async () => {
    const api = await open()
    for (const [method, rest] of [
      ['GET', ''],
      ['GET', '/k'],
      ['POST', '/k/retry'],
    ] as const) {
      expect((await api.server.call(method, `/subscribers/${unknown}/lanes${rest}`)).status).toBe(404)
    }
  })
})

describe('a lane that is blocked', () => {
  test('goes on with its head after a retry', async () => {
    const api = await open()
    const { path, events } = await blocked(api)
    const done = { ordering_key: 'k', event_id: events[0], done: 'retried' }
    expect(await api.ask('POST', `${path}/retry`)).toEqual(done)
    expect(await api.letters('?include_retried=true')).toMatchObject([{ manual_retry_by: 'local' }])
    expect(await api.workOff('s')).toEqual(events)
    expect(await api.adminLog()).toContainEqual({ actor: 'local', action: 'lane.retry', target: 's/k' })
  })

  test.each([
    ['skip', 'dlq'],
    ['discard', 'cancelled'],
  ])('goes on without it after a %s', async (verb, status) => {
    const api = await open()
    const { path, events } = await blocked(api)
    await api.ask('POST', `${path}/${verb}`)
    expect(await api.workOff('s')).toEqual(events.slice(1))
    expect(await api.delivery(events[0] as number)).toMatchObject({ status })
    const { json } = await api.server.call('POST', `${path}/${verb}`)
    expect(json).toMatchObject({ status: 409, code: 'not_blocked', key: 'k', subscription: 's' })
  })
})

describe('a lane whose head waits for a retry', () => {
  test('goes on with it at once after a retry, its failures kept', async () => {
    const api = await open()
    const { path, events } = await retrying(api)
    await api.ask('POST', `${path}/retry`)
    const lease = await api.take('s')
    expect(lease).toMatchObject({ id: events[0], attempt: 2, retry_count: 1 })
    await api.complete(lease)
    expect(await api.workOff('s')).toEqual(events.slice(1))
  })

  test.each([
    ['skip', 'skip', 'dlq'],
    ['skip', 'block', 'dlq'],
    ['discard', 'skip', 'cancelled'],
    ['discard', 'block', 'cancelled'],
  ])('goes on without it after a %s, also with on_exhausted %s', async (verb, on_exhausted, status) => {
    const api = await open()
    const { path, events } = await retrying(api, { on_exhausted })
    await api.ask('POST', `${path}/${verb}`)
    expect(await api.delivery(events[0] as number)).toMatchObject({ status, failures: 1 })
    expect(await api.workOff('s')).toEqual(events.slice(1))
  })
})

test.each(['retry', 'skip', 'discard'])('a lane that moves refuses a %s', async (verb) => {
  const api = await open()
  const id = await api.subscriber('s')
  const path = `/subscribers/${id}/lanes/k/${verb}`
  const refused = async () =>
    expect((await api.server.call('POST', path)).json).toMatchObject({ status: 409, code: 'not_blocked' })
  await refused()
  const eventId = await api.note({ ordering_key: 'k' })
  await refused()
  await api.take('s')
  await refused()
  expect(await api.delivery(eventId)).toMatchObject({ status: 'delivering' })
})
