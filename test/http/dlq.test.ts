import { describe, expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { isTime, type Json } from './pulling.ts'
import { Repairing } from './repairing.ts'

const servers = useServers('dlq')
const open = async () => new Repairing(await servers.open())

const unknown = '0198e2a4-7c1b-7d52-9a3e-5f0c6b8d1e27'

describe('a dead letter', () => {
  test('has the event and the subscriber as they were, the payload byte for byte', async () => {
    const api = await open()
    const subscriber = await api.subscriber('s')
    const payload = '{"b" : 12345678901234567890,  "a":1e400, "a":"\\u0000\\ud800"}'
    const body = `{"type":"note","title":"x","payload":${payload}}`
    const eventId = (await api.server.call('POST', '/events', body)).json.id
    await api.fail(await api.take('s'), { permanent: true })
    const [listed] = await api.letters()
    expect(listed).toEqual({
      ...{ id: expect.any(String), message_id: (await api.delivery(eventId)).id, event_id: eventId },
      ...{ event_type: 'note', subscriber_id: subscriber, subscriber: 's', kind: 'buried' },
      ...{ failure_reason: 'no luck', attempts: 1, failures: 1, moved_to_dlq_at: isTime },
      ...{ manual_retry_by: null, manual_retry_at: null },
    })
    const { status, text, json } = await api.server.call('GET', `/dlq/${listed.id}`)
    expect(status).toBe(200)
    expect(text).toContain(payload)
    expect(json).toMatchObject({
      ...listed,
      event_snapshot: { id: eventId, type: 'note', title: 'x' },
      subscriber_snapshot: { id: subscriber, name: 's', via: 'pull' },
    })
  })

  test('that nobody wanted is routed again by a retry', async () => {
    const api = await open()
    await api.ask('POST', '/events', { type: 'lonely', payload: 1, require_route: true }, 202)
    const [letter] = await api.letters()
    expect(letter).toMatchObject({ message_id: null, subscriber: null, subscriber_id: null, kind: 'buried' })
    const early = await api.server.call('POST', `/dlq/${letter.id}/retry`)
    expect(early.json).toMatchObject({
      ...{ status: 409, code: 'not_retryable', reason: 'no subscription wants it' },
    })
    await api.subscriber('s', { event_types: ['lonely'] })
    await api.ask('POST', `/dlq/${letter.id}/retry`)
    expect(await api.workOff('s')).toEqual([letter.event_id])
  })

  test('that is unknown is 404, and what is no id is 422', async () => {
    const api = await open()
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/retry'],
      ['DELETE', ''],
    ] as const) {
      expect((await api.server.call(method, `/dlq/${unknown}${path}`)).json).toMatchObject({
        ...{ status: 404, code: 'not_found', detail: `There is no dead letter ${unknown}.` },
      })
      expect((await api.server.call(method, `/dlq/x${path}`)).json).toMatchObject({
        ...{ status: 422, field: 'id', value: 'x' },
      })
    }
  })
})

describe('the list', () => {
  test('is filtered by all that is known of a dead letter', async () => {
    const api = await open()
    await api.subscriber('a', { event_types: ['note', 'mail'] })
    const b = await api.subscriber('b', { event_types: ['order'] })
    const note = await api.buried('a')
    const mail = await api.buried('a', { type: 'mail' })
    await api.server.clock.advance(60_000)
    const order = await api.buried('b', { type: 'order' })
    const since = encodeURIComponent((await api.letters('?subscriber=b'))[0].moved_to_dlq_at)
    const expectations: [string, number[]][] = [
      ['', [note, mail, order]],
      ['?order=desc', [order, mail, note]],
      ['?subscriber=a', [note, mail]],
      [`?subscriber=${b}`, [order]],
      [`?event_id=${mail}`, [mail]],
      ['?event_type=mail', [mail]],
      ['?event_type=none', []],
      ['?kind=buried', [note, mail, order]],
      ['?kind=expired', []],
      [`?since=${since}`, [order]],
      [`?until=${since}`, [note, mail]],
      ['?offset=1&limit=1', [mail]],
    ]
    for (const [query, events] of expectations) {
      expect([query, (await api.letters(query)).map((one: Json) => one.event_id)]).toEqual([query, events])
    }
  })

  test('goes on by cursor, and says where', async () => {
    const api = await open()
    await api.subscriber('s')
    const events = [await api.buried('s'), await api.buried('s'), await api.buried('s')]
    const first = await api.server.call('GET', '/dlq?limit=2')
    expect(first.json).toMatchObject({ total: 3, limit: 2, offset: 0 })
    const [, next] = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
    const rest = await api.ask('GET', next as string)
    const found = [...first.json.dead_letters, ...rest.dead_letters]
    expect(found.map((one: Json) => one.event_id)).toEqual(events)
    expect(rest).not.toHaveProperty('next_cursor')
  })

  test.each([
    ['kind=lost', 'kind'],
    ['since=yesterday', 'since'],
    ['event_type=%00', 'event_type'],
    ['include_retried=1', 'include_retried'],
    ['cursor=x', 'cursor'],
  ])('refuses %s, and names it', async (query, name) => {
    const api = await open()
    const { status, json } = await api.server.call('GET', `/dlq?${query}`)
    expect(status).toBe(422)
    expect(json.field ?? json.option).toBe(name)
  })
})

describe('a retry', () => {
  test('happens once, says who and when, and is in the admin log', async () => {
    const adminKey = 'a key that is long enough to be one'
    const server = await servers.open({ adminKey })
    const call = (method: string, path: string, body?: unknown) =>
      server.call(method, path, body, { authorization: `Bearer ${adminKey}` })
    await call('POST', '/subscribers', { name: 's', via: 'pull', event_types: ['note'] })
    const event = await call('POST', '/events', { type: 'note', payload: 1 })
    const [delivery] = (await call('GET', `/deliveries?event_id=${event.json.id}`)).json.deliveries
    await call('POST', `/deliveries/${delivery.id}/bury`)
    const [letter] = (await call('GET', '/dlq')).json.dead_letters
    const calls = Array.from({ length: 64 }, () => call('POST', `/dlq/${letter.id}/retry`))
    const answers = await Promise.all(calls)
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    expect(won[0]?.json).toMatchObject({ manual_retry_by: 'admin', manual_retry_at: isTime })
    for (const { status, json } of answers.filter((one) => one !== won[0])) {
      expect([status, json.code, json.by]).toEqual([409, 'already_retried', 'admin'])
    }
    const api = new Repairing({ ...server, call: (method, path, body) => call(method, path, body) })
    expect(await api.workOff('s')).toEqual([event.json.id])
    expect(await api.adminLog()).toContainEqual({ actor: 'admin', action: 'dlq.retry', target: letter.id })
  })

  test('by filter keeps the order of a lane, whatever the order of the burials', async () => {
    const api = await open()
    await api.subscriber('s')
    await api.subscriber('other', { event_types: ['mail'] })
    const ids = [
      await api.note({ ordering_key: 'k' }),
      await api.note({ ordering_key: 'k' }),
      await api.note({ ordering_key: 'k' }),
    ]
    for (const place of [2, 0, 1]) {
      const { id } = await api.delivery(ids[place] as number)
      await api.ask('POST', `/deliveries/${id}/bury`)
    }
    await api.buried('other', { type: 'mail' })
    expect(await api.ask('POST', '/dlq/retry', { subscriber: 's' })).toEqual({ retried: 3, more: false })
    expect(await api.workOff('s')).toEqual(ids)
    expect(await api.letters()).toMatchObject([{ subscriber: 'other' }])
  })

  test('by filter goes 1,000 at a time, past what cannot be retried', async () => {
    const api = await open()
    const gone = await api.subscriber('gone', { event_types: ['old'] })
    await api.buried('gone', { type: 'old' })
    await api.ask('DELETE', `/subscribers/${gone}`, undefined, 204)
    await api.subscriber('s')
    const ids = await api.publishMany(1000, { type: 'note', tags: undefined })
    ids.push(await api.note())
    const outcomes = (await api.leaseMany(1000, 'w', { subscription: 's' })).map((one) => ({
      ...{ event_id: one.id, lease_token: one.lease_token, outcome: 'bury' },
    }))
    await api.settle(outcomes)
    await api.fail(await api.take('s'), { permanent: true })
    const body = { kind: 'buried' }
    expect(await api.ask('POST', '/dlq/retry', body)).toEqual({ retried: 1000, more: true })
    expect(await api.ask('POST', '/dlq/retry', body)).toEqual({ retried: 1, more: false })
    expect(await api.letters()).toMatchObject([{ subscriber: 'gone' }])
    const [letter] = await api.letters()
    const { json } = await api.server.call('POST', `/dlq/${letter.id}/retry`)
    expect(json).toMatchObject({ status: 409, code: 'not_retryable' })
  })

  test('by ids takes those, and needs them or a filter, not both', async () => {
    const api = await open()
    await api.subscriber('s')
    await api.buried('s')
    await api.buried('s')
    const [first, second] = await api.letters()
    expect(await api.ask('POST', '/dlq/retry', { ids: [first.id, unknown] })).toEqual({
      retried: 1,
      more: false,
    })
    expect(await api.letters()).toMatchObject([{ id: second.id }])
    for (const [body, field] of [
      [{}, 'ids'],
      [{ ids: [second.id], kind: 'buried' }, 'kind'],
      [{ ids: [] }, 'ids'],
      [{ kind: 'lost' }, 'kind'],
      [{ since: 'x' }, 'since'],
      [{ reason: 'x' }, 'reason'],
    ] as const) {
      const { json } = await api.server.call('POST', '/dlq/retry', body)
      expect(json).toMatchObject({ status: 422, field })
    }
  })
})

describe('to discard a dead letter', () => {
  test('is to cancel its delivery for good', async () => {
    const api = await open()
    await api.subscriber('s')
    const eventId = await api.buried('s')
    const [{ id }] = (await api.letters()) as [Json]
    await api.ask('DELETE', `/dlq/${id}`, undefined, 204)
    expect(await api.letters('?include_retried=true')).toEqual([])
    expect(await api.delivery(eventId)).toMatchObject({ status: 'cancelled', attempt_count: 1, failures: 1 })
    expect(await api.event(eventId)).toMatchObject({ status: 'CANCELLED' })
    expect(await api.actions(eventId)).toEqual(['PICKED', 'FAILED', 'DISCARDED'])
    expect((await api.adminLog()).slice(-1)).toEqual([{ actor: 'local', action: 'dlq.discard', target: id }])
    expect((await api.server.call('DELETE', `/dlq/${id}`)).status).toBe(404)
  })

  test('is to let its lane go on, if that stopped at it', async () => {
    const api = await open()
    await api.subscriber('s', { on_exhausted: 'block' })
    await api.buried('s', { ordering_key: 'k' })
    const second = await api.note({ ordering_key: 'k' })
    expect(await api.workOff('s')).toEqual([])
    const [{ id }] = (await api.letters()) as [Json]
    await api.ask('DELETE', `/dlq/${id}`, undefined, 204)
    expect(await api.workOff('s')).toEqual([second])
  })

  test('is refused once it was retried', async () => {
    const api = await open()
    await api.subscriber('s')
    await api.buried('s')
    const [{ id }] = (await api.letters()) as [Json]
    await api.ask('POST', `/dlq/${id}/retry`)
    const { json } = await api.server.call('DELETE', `/dlq/${id}`)
    expect(json).toMatchObject({ status: 409, code: 'already_retried', by: 'local', at: isTime })
  })
})
