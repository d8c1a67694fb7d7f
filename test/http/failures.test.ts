import { expect, test } from 'vitest'
import { useServers } from '../support/http.ts'
import { bodyOf, Pulling } from './pulling.ts'

/** What becomes of a failure: when it is tried again, and when not. */

const servers = useServers('failures')
const open = async () => new Pulling(await servers.open())
const retryMs = 300_000

const patience = [
  [undefined, 300_000],
  [0, 300_000],
  [1_000, 300_000],
  [600_000, 600_000],
  [86_400_000, 86_400_000],
] as const
test('retry_after_ms is never less than the queue’s own patience', async () => {
  const pulling = await open()
  const { clock } = pulling.server
  for (const [retryAfterMs, waits] of patience) {
    const id = await pulling.publish()
    await pulling.lease()
    const { json } = await pulling.say('fail', id, { worker_id: 'w', retry_after_ms: retryAfterMs })
    expect(Date.parse(json.next_retry_at) - Date.parse(json.created_at)).toBe(waits)
    await clock.advance(waits - 10_000)
    expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
    await clock.advance(10_000)
    expect(await pulling.lease()).toMatchObject({ id, attempt: 2 })
    await pulling.say('complete', id, { worker_id: 'w' })
  }
})

test('retry_after_ms is checked', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  await pulling.lease()
  for (const value of [-1, 86_400_001, 1.5, '60', null]) {
    const refused = await pulling.say('fail', id, { worker_id: 'w', retry_after_ms: value })
    expect(refused).toMatchObject({ status: 422, json: { field: 'retry_after_ms' } })
  }
  expect(await pulling.event(id)).toMatchObject({ status: 'PROCESSING' })
})

test.each([1, 2, 5])('an event that allows %i failures is buried with that one', async (maxRetries) => {
  const pulling = await open()
  const id = await pulling.publish({ max_retries: maxRetries })
  for (let failure = 1; failure < maxRetries; failure++) {
    expect(await pulling.lease()).toMatchObject({ max_retries: maxRetries, retry_count: failure - 1 })
    const { status, json } = await pulling.say('fail', id, { worker_id: 'w' })
    expect([status, json.retry_count, json.max_retries]).toEqual([200, failure, maxRetries])
    await pulling.server.clock.advance(retryMs)
  }
  await pulling.lease()
  const final = await pulling.say('fail', id, { worker_id: 'w' })
  expect(final).toMatchObject({ status: 400, json: { retry_count: maxRetries, max_retries: maxRetries } })
})

test('the final failure is refused, recorded, a dead letter, told to listeners and alerted', async () => {
  const pulling = await open()
  const { hub, call } = pulling.server
  const subscriber = { name: 'alarm', via: 'pull', event_types: ['posthorn.delivery.*'] }
  expect(await call('POST', '/subscribers', subscriber)).toMatchObject({ status: 201 })
  const told: unknown[] = []
  hub.events.on('buried', (burial) => told.push(burial))
  const id = await pulling.publish({ max_retries: 1 })
  await pulling.lease()
  const report = {
    worker_id: 'w',
    error_message: 'broken\nfor good',
    execution_time_ms: 7,
    status_code: 503,
  }
  const final = await pulling.say('fail', id, report)
  expect(final.headers.get('content-type')).toContain('application/problem+json')
  expect(bodyOf(final)).toMatchObject({
    ...{ status: 400, error: 'Max retries exceeded', code: 'max_retries_exceeded', event_id: id },
    ...{ retry_count: 1, max_retries: 1 },
  })
  await pulling.say('fail', id, report)
  const event = await pulling.event(id)
  expect(event).toMatchObject({ status: 'FAILED', retry_count: 1, next_retry_at: null })
  const { worker_id, ...entry } = report
  expect(event.logs).toMatchObject([{ action: 'PICKED' }, { action: 'FAILED', worker_id, ...entry }])
  const { deadLetters } = await hub.deadLetters()
  expect(deadLetters).toMatchObject([
    { eventId: id, kind: 'buried', failures: 1, attempts: 1, reason: entry.error_message },
  ])
  expect(told).toEqual([{ subscription: 'work', eventId: id, reason: entry.error_message }])
  const alert = await pulling.lease('operator', { subscription: 'alarm', wait: 10 })
  expect(alert).toMatchObject({
    type: 'posthorn.delivery.buried',
    payload: { subscription: 'work', eventId: id, reason: 'broken' },
  })
  expect(await pulling.subscribe({ subscription: 'alarm' })).toMatchObject({ status: 204 })
})
