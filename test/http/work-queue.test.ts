import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'

/** A work queue by tags, from the first call to the last: every request and response, with its values. */

const servers = useServers('work_queue')
const isTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
const worker = 'worker-02:8742'

const email = {
  title: 'Send Email Notification',
  description: 'Send welcome email to new user',
  tags: 'email,priority-high,notification',
  payload: {
    user_id: 12345,
    email: 'user@example.com',
    template: 'welcome',
    variables: { name: 'Alice', signup_date: '2025-12-24' },
  },
}

async function published(server: TestServer, event: object = email): Promise<number> {
  const { status, json } = await server.call('POST', '/events', event)
  expect(status).toBe(201)
  return json.id
}

async function subscribed(server: TestServer, tags: string, workerId = worker) {
  return server.call('GET', `/events/subscribe?tags=${tags}&worker_id=${workerId}`)
}

test('1. POST /events creates a job', async () => {
  const server = await servers.open()
  const { status, json } = await server.call('POST', '/events', email)
  expect(status).toBe(201)
  expect(json).toMatchObject({
    id: expect.any(Number),
    ...email,
    status: 'PENDING',
    retry_count: 0,
    max_retries: 3,
    next_retry_at: null,
    created_at: isTime,
    updated_at: isTime,
  })
})

test('2. GET /events/subscribe gives one event at a time, PROCESSING, and 204 when there is none', async () => {
  const server = await servers.open()
  const id = await published(server)
  const { status, json } = await subscribed(server, 'email,notification')
  expect(status).toBe(200)
  expect(json).toMatchObject({
    id,
    title: email.title,
    tags: email.tags,
    status: 'PROCESSING',
    payload: email.payload,
    retry_count: 0,
    max_retries: 3,
    created_at: isTime,
  })
  expect(json).toMatchObject({ lease_token: expect.any(String), lease_expires_at: isTime, attempt: 1 })
  const none = await subscribed(server, 'email,notification')
  expect(none).toMatchObject({ status: 204, text: '' })
})

test('3. POST /events/{id}/complete records the success, once', async () => {
  const server = await servers.open()
  const id = await published(server)
  await subscribed(server, 'email')
  const report = { worker_id: worker, execution_time_ms: 1250, status_code: 200 }
  const first = await server.call('POST', `/events/${id}/complete`, report)
  expect(first.status).toBe(200)
  expect(first.json).toMatchObject({
    event_id: id,
    worker_id: worker,
    action: 'COMPLETED',
    status_code: 200,
    execution_time_ms: 1250,
    created_at: isTime,
  })
  const again = await server.call('POST', `/events/${id}/complete`, report)
  expect(again).toMatchObject({ status: 200, json: first.json })
  const { json } = await server.call('GET', `/events/${id}?include_logs=true`)
  expect(json.status).toBe('COMPLETED')
  expect(json.logs.map((entry: { action: string }) => entry.action)).toEqual(['PICKED', 'COMPLETED'])
})

test('4. POST /events/{id}/fail schedules a retry in five minutes, and the third failure is final', async () => {
  const server = await servers.open()
  const id = await published(server)
  const report = {
    worker_id: worker,
    execution_time_ms: 5000,
    status_code: 500,
    error_message: 'Connection timeout: mail server unreachable. Will retry.',
  }
  for (const failure of [1, 2]) {
    expect(await subscribed(server, 'email')).toMatchObject({
      status: 200,
      json: { retry_count: failure - 1 },
    })
    const { status, json } = await server.call('POST', `/events/${id}/fail`, report)
    expect(status).toBe(200)
    expect(json).toMatchObject({
      event_id: id,
      ...report,
      action: 'FAILED',
      retry_scheduled: true,
      created_at: isTime,
    })
    expect(Date.parse(json.next_retry_at) - Date.parse(json.created_at)).toBe(300_000)
    const repeated = await server.call('POST', `/events/${id}/fail`, report)
    expect(repeated).toMatchObject({ status: 200, json })
    const { json: event } = await server.call('GET', `/events/${id}`)
    expect(event).toMatchObject({
      status: 'PENDING',
      retry_count: failure,
      next_retry_at: json.next_retry_at,
    })
    expect(await subscribed(server, 'email')).toMatchObject({ status: 204 })
    await server.clock.advance(300_000)
  }
  await subscribed(server, 'email')
  const final = await server.call('POST', `/events/${id}/fail`, report)
  expect(final.status).toBe(400)
  expect(final.headers.get('content-type')).toContain('application/problem+json')
  expect(final.json).toMatchObject({ error: 'Max retries exceeded', retry_count: 3, max_retries: 3 })
  expect(await server.call('POST', `/events/${id}/fail`, report)).toMatchObject({ status: 400 })
  const { json } = await server.call('GET', `/events/${id}?include_logs=true`)
  expect(json).toMatchObject({ status: 'FAILED', retry_count: 3, next_retry_at: null })
  expect(json.logs.filter((entry: { action: string }) => entry.action === 'FAILED')).toHaveLength(3)
})

test('5. GET /events/{id} shows the event, with its log on request', async () => {
  const server = await servers.open()
  const id = await published(server)
  await subscribed(server, 'email')
  const done = { worker_id: worker, execution_time_ms: 1250, status_code: 200 }
  await server.call('POST', `/events/${id}/complete`, done)
  const { status, json } = await server.call('GET', `/events/${id}?include_logs=true`)
  expect(status).toBe(200)
  expect(json).toMatchObject({
    id,
    ...email,
    status: 'COMPLETED',
    retry_count: 0,
    max_retries: 3,
    next_retry_at: null,
    created_at: isTime,
    updated_at: isTime,
    logs: [
      { id: expect.any(Number), worker_id: worker, action: 'PICKED', created_at: isTime },
      { id: expect.any(Number), ...done, action: 'COMPLETED', created_at: isTime },
    ],
  })
  expect((await server.call('GET', `/events/${id}`)).json.logs).toBeUndefined()
  expect(await server.call('GET', '/events/999999')).toMatchObject({
    status: 404,
    json: { code: 'not_found' },
  })
})

test('6. GET /events filters by status and tags, pages, and counts', async () => {
  const server = await servers.open()
  const first = await published(server)
  const payment = { title: 'Process Payment', tags: 'payment,priority-high', payload: { amount: 1 } }
  const second = await published(server, payment)
  await subscribed(server, 'email')
  await server.call('POST', `/events/${first}/complete`, { worker_id: worker })
  await subscribed(server, 'payment')
  await server.call('POST', `/events/${second}/fail`, { worker_id: worker, error_message: 'no' })

  const all = await server.call('GET', '/events?limit=10')
  expect(all.status).toBe(200)
  expect(all.json).toMatchObject({ total: 2, limit: 10, offset: 0 })
  expect(all.json.events).toMatchObject([
    {
      ...{ id: first, title: email.title, status: 'COMPLETED', tags: email.tags, retry_count: 0 },
      ...{ created_at: isTime, updated_at: isTime },
    },
    {
      ...{ id: second, title: payment.title, status: 'PENDING', tags: payment.tags, retry_count: 1 },
      ...{ next_retry_at: isTime, created_at: isTime, updated_at: isTime },
    },
  ])
  const ids = async (query: string) => {
    const { json } = await server.call('GET', `/events?${query}`)
    return [json.events.map((event: { id: number }) => event.id), json.total]
  }
  expect(await ids('status=PENDING&limit=10')).toEqual([[second], 1])
  expect(await ids('status=COMPLETED')).toEqual([[first], 1])
  expect(await ids('tags=payment,email')).toEqual([[first, second], 2])
  expect(await ids('tags=payment')).toEqual([[second], 1])
  expect(await ids('limit=1&offset=1')).toEqual([[second], 2])
  expect((await server.call('GET', '/events')).json.limit).toBe(20)
})

test('the event log lifecycle: one retry on another worker', async () => {
  const server = await servers.open()
  const id = await published(server)
  await subscribed(server, 'email', 'worker-01:7234')
  const started = await server.call('POST', `/events/${id}/start`, { worker_id: 'worker-01:7234' })
  expect(started.json).toMatchObject({
    event_id: id,
    worker_id: 'worker-01:7234',
    action: 'STARTED',
    created_at: isTime,
  })
  const failure = {
    status_code: 503,
    error_message: 'Service unavailable, will retry',
    execution_time_ms: 8000,
  }
  await server.call('POST', `/events/${id}/fail`, { worker_id: 'worker-01:7234', ...failure })
  const before = (await server.call('GET', `/events/${id}?include_logs=true`)).json.logs
  await server.clock.advance(300_000)
  await subscribed(server, 'email')
  const during = (await server.call('GET', `/events/${id}?include_logs=true`)).json.logs
  const success = { status_code: 200, execution_time_ms: 1250 }
  await server.call('POST', `/events/${id}/complete`, { worker_id: worker, ...success })
  const { logs } = (await server.call('GET', `/events/${id}?include_logs=true`)).json
  const common = { id: expect.any(Number), event_id: id, created_at: isTime }
  expect(logs).toEqual([
    { ...common, worker_id: 'worker-01:7234', action: 'PICKED' },
    { ...common, worker_id: 'worker-01:7234', action: 'STARTED' },
    { ...common, worker_id: 'worker-01:7234', action: 'FAILED', ...failure },
    { ...common, worker_id: worker, action: 'PICKED' },
    { ...common, worker_id: worker, action: 'COMPLETED', ...success },
  ])
  const idsOf = (entries: { id: number }[]) => entries.map((entry) => entry.id)
  expect(idsOf(logs).slice(0, 3)).toEqual(idsOf(before))
  expect(idsOf(logs).slice(0, 4)).toEqual(idsOf(during))
  expect(new Set(idsOf(logs)).size).toBe(5)
  expect(idsOf(logs)).toEqual([...idsOf(logs)].sort((a, b) => a - b))
})

test('the closing example: one publishes, one consumes, another finds nothing', async () => {
  const server = await servers.open()
  const report = {
    title: 'Batch Report Generation',
    tags: 'reporting,batch',
    payload: { report_type: 'sales', month: '2025-12' },
  }
  const id = await published(server, report)
  expect(await subscribed(server, 'payment', 'worker-04:9101')).toMatchObject({ status: 204 })
  expect(await subscribed(server, 'reporting', 'worker-03:9100')).toMatchObject({
    status: 200,
    json: { id, status: 'PROCESSING' },
  })
  const done = { worker_id: 'worker-03:9100', execution_time_ms: 15000, status_code: 200 }
  expect(await server.call('POST', `/events/${id}/complete`, done)).toMatchObject({ status: 200 })
  expect(await subscribed(server, 'payment', 'worker-04:9101')).toMatchObject({ status: 204 })
})

test('an orphaned event is reset by an operator, and its worker is fenced off', async () => {
  const server = await servers.open()
  const id = await published(server)
  const { json: lease } = await subscribed(server, 'email')
  const reset = await server.call('POST', `/events/${id}/reset?reason=worker_timeout`)
  expect(reset).toMatchObject({ status: 200, json: { id, status: 'PENDING', retry_count: 0, reset: 1 } })
  for (const claim of [{ worker_id: worker }, { lease_token: lease.lease_token }]) {
    const late = await server.call('POST', `/events/${id}/complete`, claim)
    expect(late).toMatchObject({ status: 409, json: { code: 'lease_lost', event_id: id } })
  }
  const { logs } = (await server.call('GET', `/events/${id}?include_logs=true`)).json
  expect(logs.map((entry: { action: string }) => entry.action)).toEqual(['PICKED', 'RESET'])
  expect(logs[1].error_message).toBe('worker_timeout')
  expect(await subscribed(server, 'email')).toMatchObject({ status: 200, json: { id } })
})

test('a payload over one megabyte is refused with the advice to store it elsewhere', async () => {
  const server = await servers.open()
  const big = { ...email, payload: 'x'.repeat(1_048_576) }
  const { status, json } = await server.call('POST', '/events', big)
  expect(status).toBe(413)
  expect(json.error).toContain('store it elsewhere and send a URI')
})
