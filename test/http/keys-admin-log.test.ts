import { beforeAll, describe, expect, test } from 'vitest'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { createKey } from '../../src/keys/api-keys.ts'
import { listActions } from '../support/admin-log.ts'
import { type TestServer, useServers } from '../support/http.ts'

/** Who changed what: one row for each call that manages, none for those that publish, consume or read. */

const servers = useServers('admin_log')
const adminKey = 'the key that starts a container'
const work = { title: 'Work', tags: 'a', payload: null }
/** Nothing is sent, only registered. */
const hub = { secretKey: Buffer.alloc(32, 5).toString('base64'), dispatcher: false }
const nobody = '00000000-0000-7000-8000-000000000000'

/** What there is to be managed. */
interface Stock {
  readonly eventId: number
  /** One that nobody wanted. */
  readonly finishedId: number
  readonly subscriberId: string
  readonly replayId: string
  readonly webhookId: string
  /** Waits for its first attempt. */
  readonly waitingId: string
  /** Waits for its next one. */
  readonly failedId: string
  readonly deadLetterId: string
}

interface Managing {
  path(stock: Stock): string
  readonly method?: string
  readonly body?: object
  readonly action: string
  target(stock: Stock): string
  readonly details: object
  /** The same to something that does not exist. */
  readonly missing?: string
}

const onEvent = { target: ({ eventId }: Stock) => String(eventId) }
const onSubscriber = { target: () => 'billing' }
const onLane = { target: () => 'billing/k 1', details: {} }

/** By the name of the route. */
const managing: Record<string, Managing> = {
  resetEvent: {
    path: ({ eventId }) => `/events/${eventId}/reset?reason=stuck`,
    ...{ action: 'event.reset', ...onEvent, details: { reason: 'stuck' }, missing: '/events/4242/reset' },
  },
  cancelEvent: {
    path: ({ eventId }) => `/events/${eventId}/cancel`,
    ...{ body: { reason: 'wrong' }, action: 'event.cancel', ...onEvent, details: { reason: 'wrong' } },
    missing: '/events/4242/cancel',
  },
  purgeEvent: {
    path: ({ finishedId }) => `/events/${finishedId}/purge?reason=erase`,
    ...{ action: 'event.purge', target: ({ finishedId }: Stock) => String(finishedId) },
    ...{ details: { reason: 'erase' }, missing: '/events/4242/purge' },
  },
  cancelEvents: {
    path: () => '/events/cancel',
    ...{ body: { tags: 'a', reason: 'all wrong' }, action: 'events.cancel', target: () => '1 events' },
    details: { tags: 'a', reason: 'all wrong' },
  },
  createSubscriber: {
    path: () => '/subscribers',
    body: { name: 'audit', via: 'pull', event_types: ['*'] },
    ...{ action: 'subscriber.create', target: () => 'audit' },
    details: { name: 'audit', via: 'pull', event_types: ['*'] },
  },
  changeSubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}`,
    ...{ method: 'PATCH', body: { max_concurrency: 3 }, action: 'subscriber.change', ...onSubscriber },
    ...{ details: { max_concurrency: 3 }, missing: `/subscribers/${nobody}` },
  },
  deleteSubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}`,
    ...{ method: 'DELETE', action: 'subscriber.delete', ...onSubscriber, details: {} },
    missing: `/subscribers/${nobody}`,
  },
  pauseSubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}/pause`,
    ...{ action: 'subscriber.pause', ...onSubscriber, details: {}, missing: `/subscribers/${nobody}/pause` },
  },
  recoverSubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}/recover`,
    ...{ body: { since: '2026-11-15T00:00:00.000Z' }, action: 'subscriber.recover', ...onSubscriber },
    details: { since: '2026-11-15T00:00:00.000Z' },
    missing: `/subscribers/${nobody}/recover`,
  },
  replaySubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}/replay`,
    ...{ body: { event_ids: [7] }, action: 'subscriber.replay', ...onSubscriber },
    ...{ details: { event_ids: [7] }, missing: `/subscribers/${nobody}/replay` },
  },
  abortReplay: {
    path: ({ replayId }) => `/replays/${replayId}`,
    ...{ method: 'DELETE', action: 'replay.abort', target: ({ replayId }: Stock) => replayId, details: {} },
    missing: `/replays/${nobody}`,
  },
  rotateSecret: {
    path: ({ webhookId }) => `/subscribers/${webhookId}/rotate-secret`,
    ...{ body: { overlap_seconds: 60 }, action: 'subscriber.rotate_secret', target: () => 'hooks' },
    ...{ details: { overlap_seconds: 60 }, missing: `/subscribers/${nobody}/rotate-secret` },
  },
  testSubscriber: {
    path: ({ webhookId }) => `/subscribers/${webhookId}/test`,
    ...{ action: 'subscriber.test', target: () => 'hooks', details: {} },
    missing: `/subscribers/${nobody}/test`,
  },
  retryDelivery: {
    path: ({ failedId }) => `/deliveries/${failedId}/retry`,
    ...{ action: 'delivery.retry', target: ({ failedId }: Stock) => failedId, details: {} },
    missing: `/deliveries/${nobody}/retry`,
  },
  buryDelivery: {
    path: ({ waitingId }) => `/deliveries/${waitingId}/bury`,
    ...{ body: { reason: 'spam' }, action: 'delivery.bury', target: ({ waitingId }: Stock) => waitingId },
    ...{ details: { reason: 'spam' }, missing: `/deliveries/${nobody}/bury` },
  },
  retryDeadLetter: {
    path: ({ deadLetterId }) => `/dlq/${deadLetterId}/retry`,
    ...{ action: 'dlq.retry', target: ({ deadLetterId }: Stock) => deadLetterId, details: {} },
    missing: `/dlq/${nobody}/retry`,
  },
  retryDeadLetters: {
    path: () => '/dlq/retry',
    ...{ body: { event_type: 'invoice.lost' }, action: 'dlq.retry', target: () => 'all that match' },
    details: { event_type: 'invoice.lost' },
  },
  discardDeadLetter: {
    path: ({ deadLetterId }) => `/dlq/${deadLetterId}`,
    ...{ method: 'DELETE', action: 'dlq.discard', target: ({ deadLetterId }: Stock) => deadLetterId },
    ...{ details: { event_id: expect.any(Number), subscriber: 'billing' }, missing: `/dlq/${nobody}` },
  },
  ...Object.fromEntries(
    (['retry', 'skip', 'discard'] as const).map((verb) => [
      `${verb}Lane`,
      {
        path: ({ subscriberId }: Stock) => `/subscribers/${subscriberId}/lanes/k%201/${verb}`,
        ...{ action: `lane.${verb}`, ...onLane, missing: `/subscribers/${nobody}/lanes/k/${verb}` },
      },
    ]),
  ),
  ...Object.fromEntries(
    (['pause', 'drain', 'resume', 'checkpoint'] as const).map((verb) => [
      `${verb}Queue`,
      {
        path: () => `/queues/billing/${verb}`,
        ...{ action: `queue.${verb}`, ...onSubscriber, details: {}, missing: `/queues/nowhere/${verb}` },
      },
    ]),
  ),
  configureQueue: {
    path: () => '/queues/billing/config',
    ...{ method: 'PATCH', body: { batchSize: 5 }, action: 'queue.config', ...onSubscriber },
    ...{ details: { batchSize: 5 }, missing: '/queues/nowhere/config' },
  },
  resumeSubscriber: {
    path: ({ subscriberId }) => `/subscribers/${subscriberId}/resume`,
    ...{
      action: 'subscriber.resume',
      ...onSubscriber,
      details: {},
      missing: `/subscribers/${nobody}/resume`,
    },
  },
}

async function stock(server: TestServer, headers: Record<string, string>): Promise<Stock> {
  const { json: event } = await server.call('POST', '/events', work, headers)
  const billing = { name: 'billing', via: 'pull', event_types: ['invoice.*'], on_exhausted: 'block' }
  const { json: subscriber } = await server.call('POST', '/subscribers', billing, headers)
  const hooks = { name: 'hooks', url: 'https://hooks.invalid/', event_types: ['hook.*'] }
  const { json: webhook } = await server.call('POST', '/subscribers', hooks, headers)
  const { replay } = await server.hub.replay('billing', { eventType: 'invoice.*' })
  const owe = async (more: object) => {
    const { id } = await server.hub.publish({ type: 'invoice.paid', payload: 1, ...more })
    const { deliveries } = await server.hub.deliveries.list({ eventId: id })
    return (deliveries[0] as { id: string }).id
  }
  const { id: finishedId } = await server.hub.publish({ type: 'nobody.wants', payload: 1 })
  const failedId = await owe({})
  const path = '/events/subscribe?subscription=billing&worker_id=w'
  const { json: leased } = await server.call('GET', path, undefined, headers)
  await server.call('POST', `/events/${leased.id}/fail`, { worker_id: 'w', error_message: 'no' }, headers)
  await server.hub.deliveries.bury(await owe({ type: 'invoice.lost' }), { reason: 'lost', by: 'test' })
  const deadLetterId = (await server.hub.deadLetters()).deadLetters[0]?.id as string
  await server.hub.deliveries.bury(await owe({ orderingKey: 'k 1' }), { reason: 'stuck', by: 'test' })
  return {
    ...{ eventId: event.id, subscriberId: subscriber.id, replayId: replay.id, webhookId: webhook.id },
    ...{ finishedId, failedId, waitingId: await owe({}), deadLetterId },
  }
}

const withKey = (text: string) => ({ authorization: `Bearer ${text}` })
const lastId = async ({ db }: TestServer) => (await listActions(db))[0]?.id ?? 0

async function since({ db }: TestServer, id: number) {
  return (await listActions(db)).filter((row) => row.id > id)
}

test('the table of this test has every route that manages', async () => {
  const server = await servers.open()
  const routes = apiRoutes(server.hub, { isDraining: () => false, version: 'test' })
  const changing = routes.filter(({ scope, method }) => scope === 'manage' && method !== 'GET')
  expect(Object.keys(managing).sort()).toEqual(changing.map(({ name }) => name).sort())
})

test.each(Object.entries(managing))('%s writes who did what to what, and from where', async (_, one) => {
  const server = await servers.open({ adminKey, hub })
  const made = await stock(server, withKey(adminKey))
  const { id: actor, text } = await createKey(server.db, { name: 'ops', scopes: ['manage'], actor: 'test' })
  const before = await lastId(server)
  const { status } = await server.call(one.method ?? 'POST', one.path(made), one.body, withKey(text))
  expect(status).toBeLessThan(300)
  expect(await since(server, before)).toEqual([
    {
      ...{ id: expect.any(Number), at: expect.any(Date), actor, action: one.action },
      ...{ target: one.target(made), details: one.details, remote: '127.0.0.1' },
    },
  ])
})

describe('a call that is refused', () => {
  let server: TestServer
  let made: Stock
  let reader: string
  // Nothing is changed, so all calls can be made to the same things.
  beforeAll(async () => {
    server = await servers.open({ adminKey, hub })
    made = await stock(server, withKey(adminKey))
    const scopes = ['read', 'publish', 'consume'] as const
    reader = (await createKey(server.db, { name: 'reader', scopes, actor: 'test' })).text
  })

  test.each(Object.entries(managing))('%s writes nothing', async (_, one) => {
    const before = await lastId(server)
    const method = one.method ?? 'POST'
    expect((await server.call(method, one.path(made), one.body)).status).toBe(401)
    expect((await server.call(method, one.path(made), one.body, withKey(reader))).status).toBe(403)
    const odd = { ...one.body, no_such_field: 1 }
    if (one.body !== undefined) {
      expect((await server.call(method, one.path(made), odd, withKey(adminKey))).status).toBe(422)
    }
    if (one.missing !== undefined) {
      expect((await server.call(method, one.missing, one.body, withKey(adminKey))).status).toBe(404)
    }
    expect(await since(server, before)).toEqual([])
  })
})

test('what lets us in at a receiver is not written: neither headers that can hold a secret nor the query', async () => {
  const server = await servers.open({ hub })
  const secrets = { authorization: 'Bearer letmein', 'X-Api-Key': 'letmein' }
  const { json } = await server.call('POST', '/subscribers', {
    ...{ name: 'hooks', event_types: ['a'], url: 'https://hooks.invalid/in?token=letmein' },
    headers: { ...secrets, 'x-team': 'billing' },
  })
  const change = { url: 'https://hooks.invalid/new?token=letmein&b=%0A', headers: secrets }
  const changed = await server.call('PATCH', `/subscribers/${json.id}`, change)
  expect(changed).toMatchObject({ status: 200, json: { url: change.url } })
  const bare = { url: 'https://hooks.invalid/bare', max_concurrency: 2 }
  await server.call('PATCH', `/subscribers/${json.id}`, bare)
  const hidden = { authorization: '[hidden]', 'X-Api-Key': '[hidden]' }
  expect((await listActions(server.db)).reverse().map(({ details }) => details)).toMatchObject([
    {
      ...{ name: 'hooks', url: 'https://hooks.invalid/in?…', headers: { ...hidden, 'x-team': '[hidden]' } },
    },
    { url: 'https://hooks.invalid/new?…', headers: hidden },
    bare,
  ])
  const { rows } = await server.db.query(
    `select details from ${server.db.schema}.admin_log where details::text like '%letmein%'`,
  )
  expect(rows).toEqual([])
})

test('without keys it was somebody on this machine, and the key of the environment is called admin', async () => {
  const open = await servers.open({ hub })
  await stock(open, {})
  expect(await listActions(open.db)).toMatchObject([
    { actor: 'local', remote: '127.0.0.1' },
    { actor: 'local', remote: '127.0.0.1' },
  ])
  const closed = await servers.open({ adminKey, hub })
  await stock(closed, withKey(adminKey))
  expect(await listActions(closed.db)).toMatchObject([
    { actor: 'admin', action: 'subscriber.create' },
    { actor: 'admin', action: 'subscriber.create' },
  ])
})

test('publishing, consuming and reading write nothing', async () => {
  const server = await servers.open()
  const lease = async () => (await server.call('GET', '/events/subscribe?tags=a&worker_id=w')).json
  await server.call('POST', '/events', work)
  await server.call('POST', '/events/batch', [work, work, work, work])
  const settled: [string, object][] = [
    ['start', {}],
    ['heartbeat', {}],
    ['complete', {}],
    ['fail', { error_message: 'no' }],
    ['release', {}],
  ]
  for (const [verb, more] of settled) {
    const { id, lease_token } = await lease()
    const { status } = await server.call('POST', `/events/${id}/${verb}`, { lease_token, ...more })
    expect(status, verb).toBe(200)
  }
  const { id: event_id, lease_token } = await lease()
  const outcomes = [{ event_id, lease_token, outcome: 'complete' }]
  expect(await server.call('POST', '/events/settle', { outcomes })).toMatchObject({ status: 200 })
  for (const path of ['/events', `/events/${event_id}?include_logs=true`, '/workers', '/subscribers']) {
    expect(await server.call('GET', path)).toMatchObject({ status: 200 })
  }
  expect(await listActions(server.db)).toEqual([])
})
