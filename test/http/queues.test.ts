import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'

const servers = useServers('queues')
const isTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

const task = (api: TestServer, more: object = {}) =>
  api.call('POST', '/events', { title: 'send', tags: 'mail', payload: { n: 1 }, ...more })

/** An event of a queue document. */
const invoice = {
  eventId: 'evt_123abc456def789',
  pattern: 'invoice.created',
  version: '1.0.0',
  source: { type: 'integration', id: 'xero_main', name: 'Xero Accounting' },
  timestamp: '2024-03-15T10:00:00.123Z',
  payload: { invoice_id: 'INV-001', amount: 1500.0 },
  metadata: { correlationId: 'corr_xyz789', retryCount: 0 },
}

test('a queue has a document with its events, metrics and configuration', async () => {
  const api = await servers.open()
  await api.call('POST', '/subscribers', { name: 'main-queue', via: 'pull', event_types: ['invoice.*'] })
  const { status } = await api.call('POST', '/events', invoice)
  expect(status).toBe(202)
  const { json } = await api.call('GET', '/queues/main-queue')
  expect(json).toEqual({
    id: 'main-queue',
    events: [
      {
        ...{ eventId: expect.stringMatching(/^\d+$/), pattern: 'invoice.created', version: '1.0.0' },
        ...{ source: invoice.source, timestamp: invoice.timestamp, payload: invoice.payload },
        metadata: { correlationId: 'corr_xyz789', retryCount: 0 },
      },
    ],
    checkpointId: null,
    queueMetrics: { totalProcessed: 0, totalErrors: 0, avgProcessingTimeMs: 0 },
    config: {
      ...{ maxQueueDepth: null, batchSize: null, processingInterval: null, persistenceThreshold: null },
      ...{ highWatermark: null, on_full: 'hold' },
    },
    ...{ status: 'active', created_at: isTime, updated_at: isTime },
    ...{ subscriber_id: expect.any(String), via: 'pull', storage: 'database', durability: 'durable' },
    depth: 1,
    ...{ backpressure: 'none', drained_at: null },
  })
})

test('a queue in the database takes persistenceThreshold, which is said to do nothing there', async () => {
  const api = await servers.open()
  const config = {
    maxQueueDepth: 10_000,
    batchSize: 100,
    processingInterval: 1_000,
    persistenceThreshold: 500,
  }
  const changed = await api.call('PATCH', '/queues/work/config', { ...config, highWatermark: 8_000 })
  expect(changed).toMatchObject({ status: 200 })
  const { json } = await api.call('GET', '/queues/work')
  expect(json).toMatchObject({ storage: 'database', config: { ...config, highWatermark: 8_000 } })
  // What was read can be written back.
  expect(await api.call('PATCH', '/queues/work/config', json.config)).toMatchObject({ status: 200 })
  const { paths } = (await api.call('GET', '/openapi.json')).json
  const { schema } = paths['/queues/{id}/config'].patch.requestBody.content['application/json']
  expect(schema.properties.persistenceThreshold.description).toMatch(/no effect on a queue in the database/)
})

test('its figures are those of what was done, and its checkpoint the event that was processed last', async () => {
  const api = await servers.open()
  const ids: number[] = []
  for (let n = 0; n < 3; n++) ids.push((await task(api)).json.id)
  const take = async () =>
    (await api.call('GET', '/events/subscribe?tags=mail&worker_id=w1')).json as { id: number }
  const first = await take()
  await api.call('POST', `/events/${first.id}/complete`, { worker_id: 'w1', execution_time_ms: 40 })
  const second = await take()
  await api.call('POST', `/events/${second.id}/fail`, { worker_id: 'w1', error_message: 'no luck' })
  const third = await take()

  const before = (await api.call('GET', '/queues/work')).json
  expect(before).toMatchObject({
    checkpointId: String(first.id),
    queueMetrics: { totalProcessed: 1, totalErrors: 1, avgProcessingTimeMs: expect.any(Number) },
    depth: 2,
  })
  expect(before.events.map((event: { eventId: string }) => event.eventId)).toEqual([
    String(second.id),
    String(third.id),
  ])
  expect(before.events[0].metadata).toEqual({
    ...{ retryCount: 1, lastError: 'no luck', lastErrorTime: isTime },
  })
  expect(before.events[1].metadata).toEqual({ retryCount: 0, processingStartTime: isTime })
  // The same when upkeep has added them up.
  await api.clock.advance(1_000)
  const after = (await api.call('GET', '/queues/work')).json
  expect(after).toMatchObject({ queueMetrics: before.queueMetrics, checkpointId: before.checkpointId })
})

test('its events come in pages, each once, whatever they wait for', async () => {
  const api = await servers.open()
  await api.call('POST', '/subscribers', { name: 'q', via: 'pull', event_types: ['note'] })
  const note = (more: object) => api.call('POST', '/events', { type: 'note', payload: 1, ...more })
  const ids: string[] = []
  const batch = Array.from({ length: 7 }, () => ({ type: 'note', payload: 1 }))
  for (const { id } of (await api.call('POST', '/events/batch', batch)).json.events) ids.push(String(id))
  for (let n = 0; n < 9; n++) ids.push(String((await note({ ordering_key: `k${n % 2}` })).json.id))
  ids.push(String((await note({ run_at: '2099-01-01T00:00:00Z' })).json.id))
  await api.call('GET', '/events/subscribe?subscription=q&worker_id=w1')
  ids.push(String((await note({ ordering_key: 'k0' })).json.id))

  for (const limit of [1, 3, 5, 100]) {
    const seen: string[] = []
    let path: string | undefined = `/queues/q?limit=${limit}`
    while (path !== undefined) {
      const { json, headers, status } = await api.call('GET', path)
      expect(status).toBe(200)
      expect(json.events.length).toBeLessThanOrEqual(limit)
      seen.push(...json.events.map((event: { eventId: string }) => event.eventId))
      path = /<([^>]+)>/.exec(headers.get('link') ?? '')?.[1]
    }
    expect([...seen].sort()).toEqual([...ids].sort())
  }
})

test('payloads are shown byte for byte, and left out where a page would be too large', async () => {
  const api = await servers.open()
  const odd = '{"a":  1.0, "a": 12345678901234567890, "z": "\\u0000"}'
  await api.call('POST', '/events', `{"title": "t", "tags": "mail", "payload": ${odd}}`)
  for (let n = 0; n < 6; n++) await task(api, { payload: 'x'.repeat(900_000) })
  const { text, json } = await api.call('GET', '/queues/work')
  expect(text).toContain(`"payload":${odd}`)
  const leftOut = json.events.filter((event: { payloadLeftOut?: true }) => event.payloadLeftOut)
  expect(leftOut.length).toBeGreaterThan(0)
  expect(text.length).toBeLessThan(6_000_000)
})

test('queues are listed with their first events', async () => {
  const api = await servers.open()
  await api.call('POST', '/subscribers', { name: 'q', via: 'pull', event_types: ['note'] })
  for (let n = 0; n < 3; n++) await task(api)
  const { json } = await api.call('GET', '/queues?events=2')
  expect(json).toMatchObject({
    total: 2,
    limit: 20,
    queues: [
      { id: 'work', depth: 3 },
      { id: 'q', depth: 0 },
    ],
  })
  expect(json.queues[0].events).toHaveLength(2)
  const page = await api.call('GET', '/queues?limit=1')
  expect(page.headers.get('link')).toContain('rel="next"')
})

test('a list of queues has no more payloads than one queue, and a page of it up to 1,000 queues', async () => {
  const api = await servers.open()
  for (const name of ['a', 'b', 'c']) {
    await api.call('POST', '/subscribers', {
      name,
      via: 'pull',
      event_types: [name === 'c' ? 'other' : 'note'],
    })
  }
  for (let n = 0; n < 4; n++) {
    await api.call('POST', '/events', { type: 'note', payload: 'x'.repeat(900_000) })
  }
  const { json, text } = await api.call('GET', '/queues')
  const events = json.queues.map((queue: { id: string; events: object[] }) => [queue.id, queue.events.length])
  expect(Object.fromEntries(events)).toEqual({ work: 0, a: 4, b: 4, c: 0 })
  expect(text.length).toBeLessThan(5_500_000)
  expect(json.queues[1].events[0].payload).toHaveLength(900_000)
  expect(json.queues[2].events[3]).toMatchObject({ payloadLeftOut: true })
  expect((await api.call('GET', '/queues?limit=1000')).status).toBe(200)
  const refused = await api.call('GET', '/queues?limit=1001')
  expect(refused.status).toBe(422)
  expect(refused.json.detail).toContain('limit')
  await expect(api.hub.queues.list({ limit: 1_001 })).rejects.toMatchObject({ code: 'BAD_OPTION' })
})

test('a full work queue answers 429 with Retry-After, and says so before with a header', async () => {
  const api = await servers.open()
  const queue = '/queues/work'
  const set = await api.call('PATCH', `${queue}/config`, { maxQueueDepth: 3, highWatermark: 2 })
  expect(set.json.config).toMatchObject({ maxQueueDepth: 3, highWatermark: 2, on_full: 'refuse' })
  await task(api)
  await task(api)
  await api.clock.advance(1_000)
  const warned = await task(api)
  expect(warned.status).toBe(201)
  expect(warned.headers.get('posthorn-backpressure')).toBe('work')
  await api.clock.advance(1_000)
  const refused = await task(api)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(refused.json).toMatchObject({ code: 'queue_full', queue: 'work' })
  const batch = await api.call('POST', '/events/batch', [
    { type: 'a', payload: 1 },
    { title: 't', tags: 'mail', payload: 1 },
  ])
  expect(batch.status).toBe(429)
  expect((await api.call('GET', '/events')).json.total).toBe(3)
  expect((await api.call('GET', queue)).json.backpressure).toBe('full')
})

test('a paused queue gives nothing and takes everything; a draining one the reverse', async () => {
  const api = await servers.open()
  const subscribe = () => api.call('GET', '/events/subscribe?tags=mail&worker_id=w1')
  await task(api)
  expect((await api.call('POST', '/queues/work/pause')).json.status).toBe('paused')
  expect((await subscribe()).status).toBe(204)
  expect((await task(api)).status).toBe(201)
  expect((await api.call('POST', '/queues/work/drain')).json).toMatchObject({ status: 'draining' })
  const refused = await task(api)
  expect(refused.status).toBe(409)
  expect(refused.json).toMatchObject({ code: 'queue_draining', queue: 'work' })
  for (let n = 0; n < 2; n++) {
    const { json } = await subscribe()
    await api.call('POST', `/events/${json.id}/complete`, { worker_id: 'w1' })
  }
  expect((await subscribe()).status).toBe(204)
  await eventually('the queue is drained', async () => {
    await api.clock.advance(1_000)
    return (await api.call('GET', '/queues/work')).json.drained_at !== null
  })
  expect((await api.call('POST', '/queues/work/resume')).json).toMatchObject({
    ...{ status: 'active', drained_at: null },
  })
  expect((await task(api)).status).toBe(201)
})

test('checkpoints are recorded when asked for and at intervals, and found by time', async () => {
  const api = await servers.open()
  const { json: event } = await task(api)
  await api.call('GET', '/events/subscribe?tags=mail&worker_id=w1')
  await api.call('POST', `/events/${event.id}/complete`, { worker_id: 'w1' })
  const made = await api.call('POST', '/queues/work/checkpoint')
  expect(made).toMatchObject({
    status: 201,
    json: { queue_id: 'work', checkpoint_id: String(event.id), event_count: 1, reason: 'requested' },
  })
  await api.clock.advance(3_600_000)
  const later = (await api.call('POST', '/queues/work/checkpoint')).json
  const all = (await api.call('GET', '/queues/work/checkpoints')).json.checkpoints
  expect(all.map(({ id }: { id: string }) => id)).toEqual([made.json.id, later.id])
  const until = new Date(Date.parse(made.json.created_at) + 60_000).toISOString()
  const early = (await api.call('GET', `/queues/work/checkpoints?until=${until}`)).json.checkpoints
  expect(early.map(({ id }: { id: string }) => id)).toEqual([made.json.id])
  const late = await api.call('GET', `/queues/work/checkpoints?since=${until}&order=desc&limit=1`)
  expect(late.json.checkpoints).toEqual([later])
})

test('the tables of queues have the documented columns and indexes, and tell the truth', async () => {
  const api = await servers.open()
  const schema = api.db.schema.replaceAll('"', '')
  await task(api, { payload: '\u0000 ' })
  await api.call('POST', '/queues/work/pause')
  await api.call('POST', '/queues/work/checkpoint')
  const { rows } = await api.db.query(
    `select id, events, checkpoint_id, queue_metrics, config, status, created_at, updated_at from ${schema}.event_queue_state`,
  )
  expect(rows).toMatchObject([
    {
      ...{ id: 'work', status: 'paused', checkpoint_id: null },
      queue_metrics: { totalProcessed: 0, totalErrors: 0, avgProcessingTimeMs: 0 },
      events: [{ eventId: '1', pattern: 'send', payload: '"\\u0000 "', metadata: { retryCount: 0 } }],
    },
  ])
  const columns = await api.db.query<{ column_name: string }>(
    `select column_name from information_schema.columns where table_schema = $1 and table_name = 'queue_checkpoints'`,
    [schema],
  )
  expect(columns.rows.map((row) => row.column_name)).toEqual(
    expect.arrayContaining(['id', 'queue_id', 'checkpoint_id', 'event_count', 'created_at']),
  )
  const indexes = await api.db.query<{ indexname: string }>(
    `select indexname from pg_indexes where schemaname = $1`,
    [schema],
  )
  expect(indexes.rows.map((row) => row.indexname)).toEqual(
    expect.arrayContaining([
      ...['event_queue_state_id_idx', 'event_queue_state_status_idx'],
      ...['queue_checkpoints_queue_id_idx', 'queue_checkpoints_created_at_idx'],
    ]),
  )
})

test('a start that finds unfinished work records it, and one that finds none does not', async () => {
  const api = await servers.open()
  await api.hub.start()
  expect((await api.call('GET', '/queues/work/recoveries')).json.recoveries).toEqual([])
  await task(api)
  await task(api)
  const second = await servers.open({
    hub: { schema: api.db.schema.replaceAll('"', ''), workerId: 'second' },
  })
  await second.hub.start()
  const { json } = await api.call('GET', '/queues/work/recoveries')
  expect(json.recoveries).toEqual([
    {
      ...{ id: expect.any(String), checkpointId: null, eventsRecovered: 2, recoveryStartTime: isTime },
      ...{ recoveryCompleteTime: isTime, status: 'completed', worker_id: 'second' },
    },
  ])
})

test('the largest limit that may be set is taken', async () => {
  const api = await servers.open()
  const { status, json } = await api.call('PATCH', '/queues/work/config', { maxQueueDepth: 1_000_000 })
  expect(status).toBe(200)
  expect(json.config).toMatchObject({ maxQueueDepth: 1_000_000, highWatermark: 800_000 })
})

test('bad input is answered by its name and value', async () => {
  const api = await servers.open()
  const bad = await api.call('PATCH', '/queues/work/config', { maxQueueDepth: 0 })
  expect(bad).toMatchObject({ status: 422 })
  expect(bad.json.detail).toContain('maxQueueDepth')
  const above = await api.call('PATCH', '/queues/work/config', { maxQueueDepth: 5, highWatermark: 9 })
  expect(above.json.detail).toMatch(/highWatermark.*got 9/)
  expect((await api.call('GET', '/queues/nowhere')).status).toBe(404)
  expect((await api.call('POST', '/queues/nowhere/drain')).status).toBe(404)
  expect((await api.call('GET', '/queues/nowhere/checkpoints')).status).toBe(404)
  const cursor = Buffer.from('[0,"x","1",0]').toString('base64url')
  expect((await api.call('GET', `/queues/work?cursor=${cursor}`)).status).toBe(422)
})
