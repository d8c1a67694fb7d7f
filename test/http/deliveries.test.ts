import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { useHubs } from '../support/hub.ts'
import { isTime, type Json } from './pulling.ts'
import { Repairing } from './repairing.ts'

const servers = useServers('deliveries')
const hubs = useHubs('deliveries_hubs')
const open = async () => new Repairing(await servers.open())

describe('a delivery', () => {
  test('shows where it stands and every attempt', async () => {
    const api = await open()
    const subscriber = await api.subscriber('s')
    const eventId = await api.note({ ordering_key: 'k' })
    const waiting = await api.delivery(eventId)
    expect(waiting).toEqual({
      ...{ id: expect.any(String), event_id: eventId, event_type: 'note', subscriber_id: subscriber },
      ...{
        subscriber: 's',
        via: 'pull',
        status: 'pending',
        attempt_count: 0,
        failures: 0,
        next_try_at: null,
      },
      ...{ worker_id: null, lastError: null, lastErrorTime: null, processingStartTime: null },
      ...{ created_at: isTime, updated_at: isTime },
    })
    const lease = await api.take('s')
    expect(await api.delivery(eventId)).toMatchObject({
      ...{ status: 'delivering', attempt_count: 1, processingStartTime: isTime, worker_id: 'w' },
    })
    await api.fail(lease, { status_code: 503, execution_time_ms: 12 })
    const failed = await api.ask('GET', `/deliveries/${waiting.id}`)
    expect(failed).toMatchObject({
      ...{ id: waiting.id, status: 'failed', attempt_count: 1, failures: 1, next_try_at: isTime },
      ...{ lastError: 'no luck', lastErrorTime: isTime, processingStartTime: null },
      lane: { ordering_key: 'k', sequence: null },
    })
    expect(failed.attempts).toEqual([
      {
        ...{ number: 1, settlement: 'retried', worker_id: 'w', started_at: isTime, finished_at: isTime },
        ...{ execution_ms: 12, status_code: 503, error_class: null, error: 'no luck', next_try_at: isTime },
        ...{ request: null, response: null, timings: null },
      },
    ])
    await api.server.clock.advance(60_000)
    await api.complete(await api.take('s'))
    const done = await api.ask('GET', `/deliveries/${waiting.id}`)
    expect(done).toMatchObject({ status: 'delivered', attempt_count: 2, failures: 1 })
    expect(done.attempts.map((one: Json) => [one.number, one.settlement])).toEqual([
      [1, 'retried'],
      [2, 'completed'],
    ])
  })

  test('of a webhook shows what was sent and what came back, but no secret', async () => {
    const api = await open()
    await api.subscriber('hook')
    const eventId = await api.note({ ordering_key: 'k' })
    await api.fail(await api.take('hook'))
    const { db } = api.server
    const request = {
      url: 'https://billing.example/hooks',
      headers: {
        ...{ 'webhook-id': 'a', 'webhook-signature': 'v1,secret', Authorization: 'Bearer x', Cookie: 'c' },
        ...{ 'x-api-key': 'k', 'x-team-token': 't', 'My-Secret': 's', 'posthorn-ordering-key': 'k' },
      },
      body_sha256: 'ab',
      body_bytes: 2,
    }
    const response = { headers: { 'set-cookie': 'session', server: 'x' }, body: 'no\u0000pe', bytes: 5 }
    await db.query(
      `insert into ${db.schema}.exchanges (event_id, subscription, token, attempt, started_at, request, status_code,
        response, error_class, error, timings)
      select a.event_id, a.subscription, a.token, a.attempt, a.leased_at, $1, 500, $2, 'status', 'it said 500', $3
      from ${db.schema}.audit a`,
      [JSON.stringify(request), JSON.stringify(response), JSON.stringify({ dns_ms: 1, total_ms: 7 })],
    )
    await db.query(
      `insert into ${db.schema}.lane_numbers (event_id, subscription, ordering_key, epoch, sequence, audit_id)
      select a.event_id, a.subscription, 'k', 1, 5, 0 from ${db.schema}.audit a`,
    )
    const { id } = await api.delivery(eventId)
    const shown = await api.ask('GET', `/deliveries/${id}`)
    expect(shown.lane).toEqual({ ordering_key: 'k', sequence: 5 })
    const hidden = '[hidden]'
    expect(shown.attempts).toMatchObject([
      {
        ...{ number: 1, status_code: 500, error_class: 'status', error: 'it said 500' },
        request: {
          ...request,
          headers: {
            ...{ 'webhook-id': 'a', 'webhook-signature': hidden, Authorization: hidden, Cookie: hidden },
            ...{ 'x-api-key': hidden, 'x-team-token': hidden, 'My-Secret': hidden },
            'posthorn-ordering-key': 'k',
          },
        },
        response: { status: 500, ...response, headers: { 'set-cookie': hidden, server: 'x' } },
        timings: { dns_ms: 1, total_ms: 7 },
      },
    ])
  })

  test('of more than 100 attempts shows the newest, and says so', async () => {
    const api = await open()
    await api.subscriber('s', { max_retries: 1000 })
    const { id } = await api.delivery(await api.note())
    await api.fail(await api.take('s'))
    const { db } = api.server
    const addAttempts = (from: number, to: number) =>
      db.query(
        `insert into ${db.schema}.audit (event_id, subscription, settlement, attempt, token, finished_at)
        select a.event_id, a.subscription, a.settlement, n, a.token + n, a.finished_at
        from ${db.schema}.audit a, generate_series($1::int, $2::int) as n
        where a.attempt = 1
        order by n`,
        [from, to],
      )
    const numbers = ({ attempts }: Json) => attempts.map((one: Json) => one.number)
    await addAttempts(2, 100)
    const whole = await api.ask('GET', `/deliveries/${id}`)
    expect(whole).not.toHaveProperty('attempts_truncated')
    expect(numbers(whole)).toEqual(Array.from({ length: 100 }, (_, place) => place + 1))
    await addAttempts(101, 103)
    const cut = await api.ask('GET', `/deliveries/${id}`)
    expect(cut).toMatchObject({ attempts_truncated: true })
    expect(numbers(cut)).toEqual(Array.from({ length: 100 }, (_, place) => place + 4))
  })

  test('of a handler is shown to the library alike, which can bury it and bring it back', async () => {
    const { hub, drain } = await hubs.open()
    hub.on('mail', { name: 'mailer' }, async () => {
      throw new Error('no such mailbox')
    })
    await hub.start()
    const { id: eventId } = await hub.publish({ type: 'mail', payload: 1 })
    await drain()
    const [delivery] = (await hub.deliveries.list({ eventId })).deliveries
    expect(delivery).toMatchObject({ via: 'handler', name: 'mailer', status: 'failed', failures: 1 })
    const id = delivery?.id as string
    const found = await hub.deliveries.get(id)
    expect(found?.attemptList).toMatchObject([
      { number: 1, settlement: 'retried', error: expect.stringContaining('no such mailbox') },
    ])
    await hub.deliveries.bury(id, { reason: 'enough' })
    expect(await hub.deliveries.get(id)).toMatchObject({ status: 'dlq', lastError: 'enough' })
    await hub.deliveries.retry(id)
    await drain()
    expect(await hub.deliveries.get(id)).toMatchObject({ status: 'failed', failures: 1, attempts: 2 })
  })

  test('whose id has another time, another subscriber or another form is not found', async () => {
    const api = await open()
    await api.subscriber('s')
    const { id } = await api.delivery(await api.note())
    const wrong = [
      `${id.slice(0, 7)}${id[7] === '0' ? '1' : '0'}${id.slice(8)}`,
      `${id.slice(0, -1)}${id.at(-1) === '0' ? '1' : '0'}`,
      '0198e2a4-7c1b-4d52-9a3e-5f0c6b8d1e27',
    ]
    for (const one of wrong) {
      for (const [method, path] of [
        ['GET', ''],
        ['POST', '/retry'],
        ['POST', '/bury'],
      ] as const) {
        const { status, json } = await api.server.call(method, `/deliveries/${one}${path}`)
        expect([status, json.code]).toEqual([404, 'not_found'])
      }
    }
    const { json } = await api.server.call('GET', '/deliveries/7')
    expect(json).toMatchObject({ status: 422, code: 'bad_field', field: 'id', value: '7' })
    expect(await api.ask('GET', `/deliveries/${id.toUpperCase()}`)).toMatchObject({ id })
  })
})

/** One delivery of each status, by its name. */
async function oneOfEach(api: Repairing): Promise<Record<string, number>> {
  await api.subscriber('s', { max_retries: 5 })
  const cancelled = await api.note()
  await api.ask('POST', `/events/${cancelled}/cancel`)
  const dlq = await api.buried('s')
  const expired = await api.note({ expires_at: new Date(Date.now() + 3_600_000).toISOString() })
  await api.server.clock.advance(2 * 3_600_000)
  const delivered = await api.note()
  await api.complete(await api.take('s'))
  const failed = await api.note()
  await api.fail(await api.take('s'))
  const delivering = await api.note()
  await api.take('s')
  const pending = await api.note()
  return { cancelled, dlq, expired, delivered, failed, delivering, pending }
}

describe('the list', () => {
  test('has every status, and each of them by itself', async () => {
    const api = await open()
    const each = await oneOfEach(api)
    const { deliveries, total } = await api.ask('GET', '/deliveries')
    expect(deliveries.map((one: Json) => [one.status, one.event_id])).toEqual(Object.entries(each))
    expect(total).toBe(7)
    for (const [status, eventId] of Object.entries(each)) {
      for (const more of ['', '&subscriber=s', '&order=desc', `&event_id=${eventId}`]) {
        const page = await api.ask('GET', `/deliveries?status=${status}${more}`)
        expect([page.total, page.deliveries.map((one: Json) => one.event_id)]).toEqual([1, [eventId]])
      }
      const none = await api.ask('GET', `/deliveries?status=${status}&subscriber=work`)
      expect(none).toEqual({ deliveries: [], total: 0, limit: 20, offset: 0 })
    }
  })

  test('goes by event and subscriber, page by page, in both directions', async () => {
    const api = await open()
    for (const name of ['a', 'b', 'c']) await api.subscriber(name)
    for (let count = 0; count < 4; count++) await api.note()
    await api.complete(await api.take('b'))
    const all = (await api.ask('GET', '/deliveries')).deliveries.map((one: Json) => one.id)
    expect(all).toHaveLength(12)
    for (const [filter, expected] of [
      ['', all],
      ['&order=desc', [...all].reverse()],
      ['&status=pending', all.filter((_: string, place: number) => place !== 1)],
      ['&subscriber=b', all.filter((_: string, place: number) => place % 3 === 1)],
    ] as const) {
      const found: string[] = []
      let path: string | undefined = `/deliveries?limit=2${filter}`
      while (path !== undefined) {
        const { json, headers } = await api.server.call('GET', path)
        expect(json.total).toBe(expected.length)
        found.push(...json.deliveries.map((one: Json) => one.id))
        path = headers.get('link')?.match(/^<([^>]+)>; rel="next"$/)?.[1]
      }
      expect(found).toEqual(expected)
    }
  })

  test('begins after as many as the offset says, with every filter, and goes on by cursor', async () => {
    const api = await open()
    for (const name of ['a', 'b', 'c']) await api.subscriber(name)
    const events = [await api.note(), await api.note(), await api.note()]
    for (const filter of ['', '&order=desc', '&status=pending', '&subscriber=b', `&event_id=${events[1]}`]) {
      const all = (await api.ask('GET', `/deliveries?limit=50${filter}`)).deliveries
      for (let offset = 0; offset <= all.length + 1; offset++) {
        const path = `/deliveries?limit=1&offset=${offset}${filter}`
        const { json, headers } = await api.server.call('GET', path)
        expect(json, path).toMatchObject({ limit: 1, offset, total: all.length })
        expect(json.deliveries, path).toEqual(all.slice(offset, offset + 1))
        const next = headers.get('link')?.match(/^<([^>]+)>/)?.[1]
        const after = next === undefined ? [] : (await api.ask('GET', next)).deliveries
        expect(after, path).toEqual(all.slice(offset + 1, offset + 2))
      }
    }
  })

  test('gives a short page where little matches, says how far it searched, and goes on by its link', async () => {
    const api = await open()
    await api.subscriber('rare', { event_types: ['rare'] })
    const { db } = api.server
    await db.query(
      `insert into ${db.schema}.events (id, type, payload, owed, created_at)
      select nextval('${db.schema}.event_ids'), 'note', '1', '{}', ${db.schema}.clock() from generate_series(1, 30000)`,
    )
    const eventId = await api.note({ type: 'rare' })
    const first = await api.server.call('GET', '/deliveries?subscriber=rare')
    expect(first.json).toEqual({
      deliveries: [],
      total: 0,
      total_is_estimate: true,
      limit: 20,
      offset: 0,
      next_cursor: expect.any(String),
      searched_to: isTime,
    })
    const found: number[] = []
    let next: string | undefined = '/deliveries?subscriber=rare'
    while (next !== undefined) {
      const { json, headers } = await api.server.call('GET', next)
      found.push(...json.deliveries.map((one: Json) => one.event_id))
      next = headers.get('link')?.match(/^<([^>]+)>/)?.[1]
    }
    expect(found).toEqual([eventId])
  })

  test('knows a subscriber by id and by name, also one that has ended', async () => {
    const api = await open()
    const id = await api.subscriber('s')
    const eventId = await api.note()
    await api.ask('DELETE', `/subscribers/${id}`, undefined, 204)
    for (const which of ['s', id]) {
      const { deliveries } = await api.ask('GET', `/deliveries?subscriber=${which}`)
      expect(deliveries.map((one: Json) => one.event_id)).toEqual([eventId])
    }
    const { json } = await api.server.call('GET', '/deliveries?subscriber=nobody')
    expect(json).toMatchObject({ status: 404, code: 'not_found', detail: 'There is no subscriber nobody.' })
  })

  test.each([
    ['status=lost', 'status'],
    ['limit=1001', 'limit'],
    ['event_id=x', 'event_id'],
    ['subscriber=%20', 'subscriber'],
    ['offset=10001', 'offset'],
    ['offset=1&cursor=YXNjOjEtMA', 'offset'],
    ['cursor=x', 'cursor'],
  ])('refuses %s, and names it', async (query, name) => {
    const api = await open()
    const { status, json } = await api.server.call('GET', `/deliveries?${query}`)
    expect(status).toBe(422)
    expect(json.field ?? json.option).toBe(name)
  })
})

describe('retry', () => {
  test('makes a retry due now, once, and keeps what was counted', async () => {
    const api = await open()
    await api.subscriber('s')
    const eventId = await api.note()
    await api.fail(await api.take('s'))
    const { id } = await api.delivery(eventId)
    for (let time = 0; time < 2; time++) {
      const after = await api.ask('POST', `/deliveries/${id}/retry`)
      expect(after).toMatchObject({ status: 'failed', failures: 1, attempt_count: 1, next_try_at: null })
    }
    expect(await api.take('s')).toMatchObject({ id: eventId, attempt: 2, retry_count: 1 })
    expect(await api.actions(eventId)).toEqual(['PICKED', 'FAILED', 'REDRIVEN', 'PICKED'])
    expect((await api.adminLog()).slice(-1)).toEqual([
      { actor: 'local', action: 'delivery.retry', target: id },
    ])
  })

  test('gives a dead letter a fresh budget', async () => {
    const api = await open()
    await api.subscriber('s')
    const eventId = await api.buried('s')
    const { id } = await api.delivery(eventId)
    expect(await api.ask('POST', `/deliveries/${id}/retry`)).toMatchObject({ status: 'pending', failures: 0 })
    expect(await api.take('s')).toMatchObject({ id: eventId, attempt: 2, retry_count: 0 })
    expect(await api.letters('?include_retried=true')).toMatchObject([{ manual_retry_by: 'local' }])
  })

  test('is refused of what is new, under way, or delivered', async () => {
    const api = await open()
    const subscriber = await api.subscriber('s')
    const eventId = await api.note()
    const { id } = await api.delivery(eventId)
    const refused = async (reason: string) => {
      const { json } = await api.server.call('POST', `/deliveries/${id}/retry`)
      expect(json).toMatchObject({ status: 409, code: 'not_retryable', reason })
    }
    await refused('it is pending, and was not tried yet')
    const lease = await api.take('s')
    await refused('it is delivering now')
    await api.complete(lease)
    await refused('it is delivered now')
    const other = await api.delivery(await api.buried('s'))
    await api.ask('DELETE', `/subscribers/${subscriber}`, undefined, 204)
    const { json } = await api.server.call('POST', `/deliveries/${other.id}/retry`)
    expect(json).toMatchObject({ status: 409, reason: 'its subscription has ended' })
  })
})

describe('bury', () => {
  test('moves what waits to the dead letters, told like any burial', async () => {
    const api = await open()
    await api.subscriber('s')
    const eventId = await api.note()
    const { id } = await api.delivery(eventId)
    const told: unknown[] = []
    api.server.hub.events.on('buried', (burial) => told.push(burial))
    const after = await api.ask('POST', `/deliveries/${id}/bury`, { reason: 'wrong customer' })
    expect(after).toMatchObject({ id, status: 'dlq', attempt_count: 0, lastError: 'wrong customer' })
    expect(told).toEqual([{ subscription: 's', eventId, reason: 'wrong customer' }])
    expect(await api.letters()).toMatchObject([
      { message_id: id, event_id: eventId, failure_reason: 'wrong customer', kind: 'buried' },
    ])
    expect(await api.event(eventId)).toMatchObject({ status: 'FAILED' })
    expect((await api.adminLog()).slice(-1)).toEqual([
      { actor: 'local', action: 'delivery.bury', target: id },
    ])
    const { json } = await api.server.call('POST', `/deliveries/${id}/bury`)
    expect(json).toMatchObject({ status: 409, code: 'not_waiting', delivery_status: 'dlq' })
  })

  test('is refused of what a worker has, and says who did it without a reason', async () => {
    const api = await open()
    await api.subscriber('s')
    const { id } = await api.delivery(await api.note())
    const lease = await api.take('s')
    const { json } = await api.server.call('POST', `/deliveries/${id}/bury`)
    expect(json).toMatchObject({ status: 409, code: 'not_waiting', delivery_status: 'delivering' })
    await api.fail(lease)
    expect(await api.ask('POST', `/deliveries/${id}/bury`)).toMatchObject({ lastError: 'buried by local' })
  })

  test('stops a lane that blocks, and lets another go on', async () => {
    const api = await open()
    for (const on_exhausted of ['skip', 'block']) {
      await api.subscriber(on_exhausted, { event_types: [on_exhausted], on_exhausted })
      const type = on_exhausted
      const first = await api.note({ type, ordering_key: 'k' })
      const second = await api.note({ type, ordering_key: 'k' })
      const { id } = await api.delivery(first)
      await api.ask('POST', `/deliveries/${id}/bury`)
      expect(await api.workOff(on_exhausted)).toEqual(on_exhausted === 'skip' ? [second] : [])
    }
  })
})

test('attempts that were picked before a moment are listed, to find those that never end', async () => {
  const api = await open()
  await api.subscriber('s')
  const eventId = await api.note()
  await api.take('s')
  await api.note()
  const { processingStartTime } = await api.delivery(eventId)
  const found = async (query: string) => {
    const { status, json } = await api.server.call('GET', `/deliveries?${query}`)
    return status === 200
      ? json.deliveries.map((one: Json) => one.event_id)
      : [status, json.field, json.value]
  }
  const later = new Date(Date.parse(processingStartTime) + 1000).toISOString()
  expect(await found(`picked_before=${later}`)).toEqual([eventId])
  expect(await found(`status=delivering&picked_before=${later}`)).toEqual([eventId])
  expect(await found(`status=delivering&picked_before=${processingStartTime}`)).toEqual([])
  expect(await found(`status=pending&picked_before=${later}`)).toEqual([422, 'status', 'pending'])
  expect(await found('picked_before=yesterday')).toEqual([422, 'picked_before', 'yesterday'])
})
