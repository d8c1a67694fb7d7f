import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../../support/http.ts'
import { completed, openOutage, publishMany, suspended } from './outage.ts'
import { openDispatching, openInbox, publish, settledOf, settledTimes, subscribe, until } from './setup.ts'

const servers = useServers('dispatcher_breaker')

const hour = 3_600_000

test('three failures in a row to reach an endpoint suspend it, and nothing is counted', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const alerts = await openInbox()
  await subscribe(server, alerts.url, { event_types: ['posthorn.subscription.*'] })
  const { id, name } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 5)
  await suspended(server, id)

  const [alert] = await alerts.count(1)
  expect(JSON.parse(alert?.body ?? '')).toMatchObject({
    type: 'posthorn.subscription.suspended',
    data: { subscription: name, reason: expect.stringContaining('closed') },
  })
  const { json } = await server.call('GET', `/subscribers/${id}`)
  expect(json).toMatchObject({
    ...{ status: 'suspended', is_active: true },
    endpoint: { state: 'suspended', unreachable_in_a_row: 3, last_error: expect.stringContaining('closed') },
  })
  expect(msBetween(json.endpoint.suspended_at, json.endpoint.next_probe_at)).toSatisfy(within(5_000))
  expect(outage.attempts).toHaveLength(3)
  for (const event of events) {
    const { json } = await server.call('GET', `/events/${event}`)
    expect(json).toMatchObject({ status: 'PENDING', retry_count: 0 })
  }
})

test('a suspended endpoint is tried with the oldest, one at a time, ever less often', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 4)
  await suspended(server, id)
  const waits: number[] = []
  for (let probe = 1; probe <= 7; probe++) {
    const before = (await server.call('GET', `/subscribers/${id}`)).json.endpoint
    // A moment too early there is none.
    await server.clock.advance((await msUntil(server, before.next_probe_at)) - 2_000)
    await server.hub.sweep()
    expect(outage.attempts).toHaveLength(2 + probe)
    await server.clock.advance(2_200)
    await outage.count(3 + probe)
    const after = await changed(server, id, before.next_probe_at)
    waits.push(msBetween(after.last_error_at, after.next_probe_at))
  }
  expect(outage.attempts.slice(3)).toEqual(Array(7).fill(String(events[0])))
  const schedule = [10, 20, 40, 60, 60, 60, 60]
  expect(waits).toEqual(schedule.map((seconds) => expect.toSatisfy(within(seconds * 1_000))))
  expect(outage.most).toBe(1)
  for (const event of events) {
    expect((await server.call('GET', `/events/${event}`)).json).toMatchObject({ retry_count: 0 })
  }
})

test('the first answer, be it a 500, ends a suspension', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 3)
  await suspended(server, id)
  outage.answer = (response) => response.writeHead(outage.attempts.length === 4 ? 500 : 204).end()
  await server.clock.advance(5_600)
  const [oldest] = events as [number]
  expect((await settledTimes(server, oldest, 2))[1]).toMatchObject({ settlement: 'retried', failures: 1 })
  const { json } = await server.call('GET', `/subscribers/${id}`)
  expect(json).toMatchObject({ status: 'active', endpoint: { unreachable_in_a_row: 0, suspended_at: null } })
  await server.clock.advance(5_600)
  await Promise.all(events.map((event) => completed(server, event)))
})

test('HTTP statuses and late answers never suspend an endpoint', async () => {
  const server = await openDispatching(servers)
  const statuses = await openInbox(() => 500)
  const silence = await openInbox(() => undefined)
  const failing = await subscribe(server, statuses.url, { event_types: ['a'], retry_backoff_seconds: [1] })
  const silent = await subscribe(server, silence.url, { event_types: ['b'], timeout_ms: 100 })
  const ids: number[] = []
  for (let n = 0; n < 6; n++) {
    for (const type of ['a', 'b']) ids.push(await publish(server, { type }))
  }
  for (const id of ids) await settledTimes(server, id, 1)
  for (const { id } of [failing, silent]) {
    const { json } = await server.call('GET', `/subscribers/${id}`)
    expect(json).toMatchObject({ status: 'active', endpoint: { state: 'open', unreachable_in_a_row: 0 } })
  }
})

test('an answer between failures begins the count anew', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  for (let round = 0; round < 3; round++) {
    outage.answer = null
    for (const failed of await publishMany(server, 2)) await settledTimes(server, failed, 1)
    outage.answer = (response) => response.writeHead(204).end()
    await completed(server, await publish(server))
    await reachedAgain(server, id)
  }
  expect((await server.call('GET', `/subscribers/${id}`)).json).toMatchObject({ status: 'active' })
})

test('after 72 h the subscriber is paused and alerted, until an operator resumes it', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const alerts = await openInbox()
  await subscribe(server, alerts.url, { event_types: ['posthorn.subscription.paused'] })
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 3)
  await suspended(server, id)
  await server.clock.advance(71 * hour)
  await outage.count(4)
  await until(async () => (await settledOf(server, events[0] as number)).length === 2, 'the probe')
  expect((await server.call('GET', `/subscribers/${id}`)).json.status).toBe('suspended')
  await server.clock.advance(hour)
  const [alert] = await alerts.count(1)
  expect(JSON.parse(alert?.body ?? '').data.reason).toContain('closed')
  expect((await server.call('GET', `/subscribers/${id}`)).json.status).toBe('paused')
  await server.clock.advance(hour)
  expect(outage.attempts).toHaveLength(5)

  outage.answer = (response) => response.writeHead(204).end()
  await server.call('POST', `/subscribers/${id}/resume`)
  await Promise.all(events.map((event) => completed(server, event)))
})

test('an operator who resumes a suspended subscriber need not wait for the next probe', async () => {
  const server = await openDispatching(servers)
  const outage = await openOutage()
  const { id } = await subscribe(server, outage.url, { max_concurrency: 1 })
  const events = await publishMany(server, 4)
  await suspended(server, id)
  outage.answer = (response) => response.writeHead(204).end()
  const { json } = await server.call('POST', `/subscribers/${id}/resume`)
  expect(json).toMatchObject({
    status: 'active',
    endpoint: { state: 'open', unreachable_in_a_row: 0, next_probe_at: null },
  })
  await completed(server, events[3] as number)
})

/** The endpoint as it is told after the next probe. */
async function changed(server: TestServer, id: string, nextProbeAt: string) {
  let endpoint = (await server.call('GET', `/subscribers/${id}`)).json.endpoint
  await until(async () => {
    endpoint = (await server.call('GET', `/subscribers/${id}`)).json.endpoint
    return Date.parse(endpoint.last_error_at) >= Date.parse(nextProbeAt)
  }, 'the outcome of a probe')
  return endpoint
}

async function reachedAgain(server: TestServer, id: string): Promise<void> {
  await until(
    async () => (await server.call('GET', `/subscribers/${id}`)).json.endpoint.unreachable_in_a_row === 0,
    'the good news',
  )
}

async function msUntil(server: TestServer, time: string): Promise<number> {
  const { rows } = await server.db.query(`select ${server.db.schema}.clock() as now`)
  const [{ now }] = rows as [{ now: Date }]
  return Math.round(Date.parse(time) - now.getTime())
}

function msBetween(from: string, to: string): number {
  return Date.parse(to) - Date.parse(from)
}

/** At most a tenth later. */
function within(ms: number): (found: number) => boolean {
  return (found) => found >= ms - 1 && found <= ms * 1.1 + 1
}
