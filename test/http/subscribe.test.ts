import { expect, test } from 'vitest'
import { defineSubscription } from '../../src/domain/subscription.ts'
import { upsertSubscription } from '../../src/subscriptions/subscriptions.ts'
import { useServers } from '../support/http.ts'
import { type Json, Pulling } from './pulling.ts'

/** GET /events/subscribe: who gets what, how much of it, and for how long. */

const servers = useServers('subscribe')
const open = async () => new Pulling(await servers.open())
const leaseMs = 60_000
const retryMs = 300_000
const idsOf = (leases: readonly { id: number }[]) => leases.map(({ id }) => id)

test('a worker gets what has any of its tags, oldest first, and nothing else', async () => {
  const pulling = await open()
  const mail = await pulling.publish({ tags: 'email,urgent' })
  const sms = await pulling.publish({ tags: ['sms'] })
  const both = await pulling.publish({ tags: 'sms, email' })
  expect(await pulling.subscribe({ tags: 'Email' })).toMatchObject({ status: 204 })
  expect(await pulling.subscribe({ tags: 'mail,urg' })).toMatchObject({ status: 204 })
  expect((await pulling.lease('w', { tags: 'fax,urgent' })).id).toBe(mail)
  expect((await pulling.lease('w', { tags: ' email , sms ,' })).id).toBe(sms)
  expect((await pulling.lease('w', { tags: 'email' })).id).toBe(both)
  expect(await pulling.subscribe({ tags: 'email,sms,urgent' })).toMatchObject({ status: 204 })
})

test('with a limit the answer is an array of at most as many', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(25)
  expect(await pulling.subscribe({})).toMatchObject({ status: 200, json: { id: ids[0] } })
  expect(idsOf(await pulling.leaseMany(1))).toEqual([ids[1]])
  expect(idsOf(await pulling.leaseMany(10))).toEqual(ids.slice(2, 12))
  expect(idsOf(await pulling.leaseMany(1000))).toEqual(ids.slice(12))
  expect(await pulling.subscribe({ limit: 10 })).toMatchObject({ status: 204, text: '' })
})

test('a call that asks for many gets them, though they were published one by one and others together', async () => {
  const pulling = await open()
  const together = await pulling.publishMany(200)
  expect(idsOf(await pulling.leaseMany(200))).toEqual(together)
  const apart: number[] = []
  for (let count = 0; count < 40; count++) apart.push(await pulling.publish())
  expect(idsOf(await pulling.leaseMany(30))).toEqual(apart.slice(0, 30))
  expect(idsOf(await pulling.leaseMany(30))).toEqual(apart.slice(30))
})

test('one call gets at most one event of each ordering key', async () => {
  const pulling = await open()
  const [a1, a2] = (await pulling.publishMany(2, { ordering_key: 'a' })) as [number, number]
  const b1 = await pulling.publish({ ordering_key: 'b' })
  const plain = await pulling.publish()
  expect(idsOf(await pulling.leaseMany(10)).sort()).toEqual([a1, b1, plain])
  expect(await pulling.subscribe({ limit: 10 })).toMatchObject({ status: 204 })
  await pulling.say('complete', a1, { worker_id: 'w' })
  expect(idsOf(await pulling.leaseMany(10))).toEqual([a2])
})

test('a lane is strictly in order, across failures, retries, crashes and burials', async () => {
  const pulling = await open()
  const { clock } = pulling.server
  const [first, second, third, fourth] = (await pulling.publishMany(4, { ordering_key: 'k' })) as [
    ...[number, number, number, number],
  ]
  const none = async () => expect(await pulling.subscribe({ limit: 10 })).toMatchObject({ status: 204 })
  const next = async () => {
    const leases = await pulling.leaseMany(10)
    await none()
    return leases
  }
  expect(await next()).toMatchObject([{ id: first, attempt: 1 }])
  await pulling.say('fail', first, { worker_id: 'w' })
  await none()
  await clock.advance(retryMs)
  expect(await next()).toMatchObject([{ id: first, attempt: 2, retry_count: 1 }])
  await pulling.say('complete', first, { worker_id: 'w' })
  expect(await next()).toMatchObject([{ id: second, attempt: 1, retry_count: 0 }])
  await clock.advance(leaseMs + 1)
  expect(await next()).toMatchObject([{ id: second, attempt: 2, retry_count: 1, suspect: true }])
  await pulling.say('release', second, { worker_id: 'w' })
  expect(await next()).toMatchObject([{ id: second }])
  await pulling.say('fail', second, { worker_id: 'w', permanent: true })
  expect(await next()).toMatchObject([{ id: third }])
  await pulling.settle([{ event_id: third, outcome: 'snooze', after_ms: 5_000, worker_id: 'w' }])
  await none()
  await clock.advance(5_000)
  expect(await next()).toMatchObject([{ id: third, retry_count: 0 }])
  await pulling.say('complete', third, { worker_id: 'w' })
  expect(await next()).toMatchObject([{ id: fourth, attempt: 1 }])
})

test('a lane whose head has none of a worker’s tags waits for somebody else', async () => {
  const pulling = await open()
  const head = await pulling.publish({ tags: 'a', ordering_key: 'k' })
  const behind = await pulling.publish({ tags: 'b', ordering_key: 'k' })
  const other = await pulling.publish({ tags: 'b', ordering_key: 'l' })
  expect(idsOf(await pulling.leaseMany(10, 'b', { tags: 'b' }))).toEqual([other])
  expect((await pulling.lease('a', { tags: 'a' })).id).toBe(head)
  expect(await pulling.subscribe({ tags: 'b' })).toMatchObject({ status: 204 })
  await pulling.say('complete', head, { worker_id: 'a' })
  expect((await pulling.lease('b', { tags: 'b' })).id).toBe(behind)
})

test('a lease lasts as long as was asked for', async () => {
  const pulling = await open()
  const { clock } = pulling.server
  const id = await pulling.publish({ max_retries: 100 })
  const lasts = [
    [{}, 60],
    [{ lease: 1 }, 1],
    [{ lease: 3_600 }, 3_600],
    [{ lease: 43_200 }, 43_200],
  ] as const
  for (const [query, seconds] of lasts) {
    const lease = await pulling.lease('w', query)
    const { leased_at, leased_until } = (await pulling.event(id)).deliveries[0]
    expect(leased_until).toBe(lease.lease_expires_at)
    expect(Date.parse(leased_until) - Date.parse(leased_at)).toBe(seconds * 1000)
    if (seconds > 30) {
      await clock.advance((seconds - 30) * 1000)
      expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
    }
    await clock.advance(30_001)
  }
  expect(await pulling.event(id)).toMatchObject({ retry_count: lasts.length })
})

test('a named subscription gives what it is owed, with or without a choice of tags', async () => {
  const pulling = await open()
  const { server } = pulling
  const create = (body: object) => server.call('POST', '/subscribers', { via: 'pull', ...body })
  expect(await create({ name: 'billing', event_types: ['invoice.*'] })).toMatchObject({ status: 201 })
  const shipping = { name: 'shipping', event_types: ['*'], tags: 'eu,us', max_retries: 7, lease_seconds: 90 }
  expect(await create(shipping)).toMatchObject({ status: 201 })
  const paid = await pulling.publish({ type: 'invoice.paid', tags: null, title: null })
  const tagged = await pulling.publish({ type: 'invoice.sent', tags: 'eu', max_retries: 1 })
  const far = await pulling.publish({ type: 'order.sent', tags: 'asia,us' })
  const billing = { subscription: 'billing', limit: 10 }
  const chosen = await pulling.leaseMany(10, 'w', { ...billing, tags: 'eu,asia' })
  expect(chosen).toMatchObject([{ id: tagged, subscription: 'billing', max_retries: 3 }])
  expect(idsOf(await pulling.leaseMany(10, 'w', billing))).toEqual([paid])
  const shipped = await pulling.leaseMany(10, 'x', { subscription: 'shipping' })
  expect(shipped).toMatchObject([
    { id: tagged, subscription: 'shipping', max_retries: 7 },
    { id: far, subscription: 'shipping', max_retries: 7 },
  ])
  const { deliveries } = await pulling.event(far)
  const at = deliveries.find((one: Json) => one.subscription === 'shipping')
  expect(Date.parse(at.leased_until) - Date.parse(at.leased_at)).toBe(90_000)
  const work = await pulling.leaseMany(10, 'y', { tags: 'eu,us' })
  expect(work).toMatchObject([
    { id: tagged, subscription: 'work', max_retries: 1 },
    { id: far, subscription: 'work', max_retries: 3 },
  ])
  expect(await pulling.subscribe({ subscription: 'work' })).toMatchObject({ status: 204 })
})

test('a subscription that does not exist is not found, and one with a handler is not for pulling', async () => {
  const pulling = await open()
  const { db, hub } = pulling.server
  await upsertSubscription(db, defineSubscription('handler', ['x'], { name: 'receipt' }))
  expect(await pulling.subscribe({ subscription: 'nobody' })).toMatchObject({
    ...{ status: 404, json: { code: 'not_found', what: 'subscription', id: 'nobody' } },
  })
  const refused = await pulling.subscribe({ subscription: 'receipt', wait: 60 })
  expect(refused).toMatchObject({ status: 422, json: { code: 'bad_field', field: 'subscription' } })
  expect(refused.json.error).toContain('receipt, whose events go to a handler')
  await hub.subscribe('y', { name: 'gone' })
  expect(await pulling.subscribe({ subscription: 'gone' })).toMatchObject({ status: 204 })
  await hub.unsubscribe('gone')
  expect(await pulling.subscribe({ subscription: 'gone' })).toMatchObject({ status: 404 })
})

test('what is paused gives nothing and keeps everything, until it is resumed', async () => {
  const pulling = await open()
  const { server } = pulling
  const { json } = await server.call('GET', '/subscribers')
  const { id: work } = json.subscribers.find((one: Json) => one.name === 'work')
  const first = await pulling.publish()
  expect(await server.call('POST', `/subscribers/${work}/pause`)).toMatchObject({ status: 200 })
  const second = await pulling.publish()
  expect(await pulling.subscribe({ limit: 10 })).toMatchObject({ status: 204 })
  expect(await server.call('POST', `/subscribers/${work}/resume`)).toMatchObject({ status: 200 })
  expect(idsOf(await pulling.leaseMany(10))).toEqual([first, second])
})

test('GET and POST lease, HEAD does not', async () => {
  const pulling = await open()
  const { call } = pulling.server
  const [first, second] = await pulling.publishMany(2)
  for (const query of ['?tags=a&worker_id=w', '?tags=a&worker_id=w&limit=10&wait=0', '']) {
    const head = await call('HEAD', `/events/subscribe${query}`)
    expect(head).toMatchObject({ status: 204, text: '' })
  }
  expect(await pulling.event(first as number)).toMatchObject({ status: 'PENDING', logs: [] })
  expect((await call('GET', '/workers')).json.workers.map((one: Json) => one.worker_id)).not.toContain('w')
  const path = '/events/subscribe?tags=a&worker_id=w'
  expect(await call('GET', path)).toMatchObject({ status: 200, json: { id: first, status: 'PROCESSING' } })
  expect(await call('POST', path)).toMatchObject({ status: 200, json: { id: second, status: 'PROCESSING' } })
  expect(await call('POST', `${path}&limit=5`)).toMatchObject({ status: 204 })
})

test('what is owned has not begun until the worker says so, and a crash charges what had begun', async () => {
  const pulling = await open()
  const ids = await pulling.publishMany(4)
  const [first, second, third, fourth] = ids as [number, number, number, number]
  const leases = await pulling.leaseMany(4, 'w', { begin: 'reported' })
  expect(leases).toMatchObject(ids.map((id) => ({ id, status: 'PENDING', attempt: 1 })))
  const lease_token = leases[0]?.lease_token
  const statuses = async () => Promise.all(ids.map(async (id) => (await pulling.event(id)).status))
  expect(await statuses()).toEqual(['PENDING', 'PENDING', 'PENDING', 'PENDING'])
  expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  const workers = async () => (await pulling.server.call('GET', '/workers')).json.workers
  const inFlight = async () => (await workers()).find((one: Json) => one.worker_id === 'w').in_flight
  expect(await inFlight()).toBe(0)
  await pulling.say('start', first, { lease_token })
  expect(await statuses()).toEqual(['PROCESSING', 'PENDING', 'PENDING', 'PENDING'])
  await pulling.say('complete', first, { lease_token })
  await pulling.say('heartbeat', third, { lease_token, begun: [second, third] })
  expect(await statuses()).toEqual(['COMPLETED', 'PROCESSING', 'PROCESSING', 'PENDING'])
  expect(await inFlight()).toBe(2)
  await pulling.say('complete', second, { lease_token })
  await pulling.server.clock.advance(leaseMs + 10_000)
  const events = await Promise.all(ids.map((id) => pulling.event(id)))
  expect(events.map(({ status, retry_count }) => [status, retry_count])).toEqual([
    ...[
      ['COMPLETED', 0],
      ['COMPLETED', 0],
      ['PENDING', 1],
      ['PENDING', 0],
    ],
  ])
  expect(events.map(({ deliveries }) => deliveries[0].attempts)).toEqual([1, 1, 1, 0])
  expect(await pulling.actions(fourth)).toEqual([])
})

test('what was out with a worker that vanished is handed out one by one, or not at all', async () => {
  const pulling = await open()
  const [first, second] = await pulling.publishMany(2)
  await pulling.leaseMany(2, 'vanished')
  await pulling.server.clock.advance(leaseMs + 1)
  const fresh = await pulling.publish()
  expect(await pulling.leaseMany(10, 'w', { suspects: 'false' })).toMatchObject([{ id: fresh }])
  expect(await pulling.subscribe({ suspects: 'false' })).toMatchObject({ status: 204 })
  expect(await pulling.leaseMany(10)).toMatchObject([{ id: first, suspect: true, retry_count: 1 }])
  expect(await pulling.leaseMany(10, 'w', { suspects: 'true' })).toMatchObject([
    { id: second, suspect: true },
  ])
  expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  await pulling.say('fail', first as number, { worker_id: 'w' })
  await pulling.server.clock.advance(retryMs)
  expect(await pulling.lease()).toMatchObject({ id: first, suspect: true, retry_count: 2 })
})

test('nothing is given out before its time or after it', async () => {
  const pulling = await open()
  const { clock } = pulling.server
  const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
  const delayed = await pulling.publish({ run_at: inSeconds(100) })
  const short = await pulling.publish({ expires_at: inSeconds(50) })
  const long = await pulling.publish({ expires_at: inSeconds(400) })
  // Delayed, it enters its lane when it is due: it does not stop it.
  const slow = await pulling.publish({ run_at: inSeconds(100), ordering_key: 'k' })
  const quick = await pulling.publish({ ordering_key: 'k' })
  expect(idsOf(await pulling.leaseMany(10, 'w', { lease: 40 })).sort()).toEqual([short, long, quick])
  await pulling.say('release', short, { worker_id: 'w' })
  await pulling.say('complete', quick, { worker_id: 'w' })
  await pulling.pass(60_000)
  // Over, though nobody has swept it up yet, and the lease of the other one is over as well.
  expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  await clock.advance(0)
  expect(await pulling.event(short)).toMatchObject({ status: 'EXPIRED' })
  expect((await pulling.server.hub.deadLetters()).deadLetters).toMatchObject([
    { eventId: short, kind: 'expired' },
  ])
  expect(await pulling.lease('w', { lease: 600 })).toMatchObject({ id: long, suspect: true })
  expect(await pulling.subscribe({})).toMatchObject({ status: 204 })
  await clock.advance(60_000)
  expect(idsOf(await pulling.leaseMany(10, 'w', { lease: 600 })).sort()).toEqual([delayed, slow])
  // What is leased does not expire: whoever has it may finish it.
  await clock.advance(400_000)
  expect(await pulling.say('complete', long, { worker_id: 'w' })).toMatchObject({ status: 200 })
})

const wrong = [
  ['tags=a', 'worker_id', 'nothing'],
  ['tags=a&worker_id=', 'worker_id', ''],
  [`tags=a&worker_id=${'w'.repeat(256)}`, 'worker_id', 'w'.repeat(200)],
  ['tags=a&worker_id=%00', 'worker_id', '\0'],
  ['worker_id=w', 'tags', 'nothing'],
  ['worker_id=w&tags=', 'tags', ''],
  ['worker_id=w&tags=%20,%20', 'tags', ' , '],
  [`worker_id=w&tags=${'x'.repeat(101)}`, 'tags', 'x'.repeat(101)],
  [`worker_id=w&tags=${Array.from({ length: 33 }, (_, no) => no)}`, 'tags', '33 tags'],
  ['worker_id=w&tags=a%00', 'tags', 'a\0'],
  ['worker_id=w&subscription=', 'subscription', ''],
  [`worker_id=w&subscription=${'s'.repeat(101)}`, 'subscription', 's'.repeat(101)],
  ['worker_id=w&tags=a&limit=0', 'limit', '0'],
  ['worker_id=w&tags=a&limit=1001', 'limit', '1001'],
  ['worker_id=w&tags=a&limit=-1', 'limit', '-1'],
  ['worker_id=w&tags=a&limit=1.5', 'limit', '1.5'],
  ['worker_id=w&tags=a&limit=1e2', 'limit', '1e2'],
  ['worker_id=w&tags=a&limit=%201', 'limit', ' 1'],
  ['worker_id=w&tags=a&limit=', 'limit', ''],
  ['worker_id=w&tags=a&limit=99999999999999999999', 'limit', '99999999999999999999'],
  ['worker_id=w&tags=a&wait=-1', 'wait', '-1'],
  ['worker_id=w&tags=a&wait=61', 'wait', '61'],
  ['worker_id=w&tags=a&wait=0.5', 'wait', '0.5'],
  ['worker_id=w&tags=a&wait=forever', 'wait', 'forever'],
  ['worker_id=w&tags=a&lease=0', 'lease', '0'],
  ['worker_id=w&tags=a&lease=43201', 'lease', '43201'],
  ['worker_id=w&tags=a&lease=1h', 'lease', '1h'],
  ['worker_id=w&tags=a&begin=later', 'begin', 'later'],
  ['worker_id=w&tags=a&suspects=1', 'suspects', '1'],
  ['worker_id=w&tag=a', 'tag', 'a'],
  ['worker_id=w&tags=a&Limit=5', 'Limit', '5'],
  ['worker_id=w&tags=a&limit=1&limit=2', 'limit', '2 times'],
  ['worker_id=w&tags=a&__proto__=1', '__proto__', '1'],
] as const
test('a bad query is refused by the name and the value of what is wrong with it', async () => {
  const pulling = await open()
  const id = await pulling.publish()
  for (const [query, field, value] of wrong) {
    for (const method of ['GET', 'POST']) {
      const { status, json, text } = await pulling.server.call(method, `/events/subscribe?${query}`)
      expect(status, `${query}: ${text}`).toBe(422)
      expect(json, query).toMatchObject({ field, value, code: expect.stringMatching(/^bad_(field|event)$/) })
      expect(json.error, query).toContain(`Expected ${field} to be `)
    }
  }
  expect(await pulling.event(id)).toMatchObject({ status: 'PENDING' })
})

test('workers are listed, with what they have, and are stale when they have been silent for 30 s', async () => {
  const pulling = await open()
  const { server } = pulling
  const known = async (name: string) => {
    const { status, json } = await server.call('GET', '/workers')
    expect(status).toBe(200)
    return json.workers.find((one: Json) => one.worker_id === name)
  }
  await pulling.publishMany(3)
  await pulling.leaseMany(2, 'busy', { lease: 600 })
  await pulling.subscribe({ worker_id: 'idle é,;', tags: 'other' })
  expect(await known('busy')).toMatchObject({ in_flight: 2, stale: false })
  expect(await known('idle é,;')).toMatchObject({ in_flight: 0, stale: false })
  expect(await known('nobody')).toBeUndefined()
  const { last_seen_at: before } = await known('busy')
  await server.clock.advance(20_000)
  expect(await known('busy')).toMatchObject({ stale: false })
  await server.clock.advance(10_001)
  expect(await known('busy')).toMatchObject({ in_flight: 2, stale: true, last_seen_at: before })
  const since = new Date(Date.parse(before) + 30_000).toISOString()
  expect(await known('busy')).toMatchObject({ stale_reason: 'silent', stale_since: since })
  await pulling.subscribe({ worker_id: 'busy', tags: 'other' })
  await server.hub.pull.tellWorkers()
  expect(await known('busy')).toMatchObject({ stale: false })
  expect(await known('busy')).toMatchObject({ stale_reason: null, stale_since: null })
  expect(await known('idle é,;')).toMatchObject({ stale: true })
  const names = async (query: string) =>
    (await server.call('GET', `/workers?${query}`)).json.workers.map((one: Json) => one.worker_id)
  expect(await names('stale=true')).toContain('idle é,;')
  expect(await names('stale=true')).not.toContain('busy')
  expect(await names('stale=false')).toContain('busy')
  expect(await names('stale=false')).not.toContain('idle é,;')
  const bad = await server.call('GET', '/workers?stale=yes')
  expect([bad.status, bad.json.field, bad.json.value]).toEqual([422, 'stale', 'yes'])
})

test('workers and subscribers come in pages', async () => {
  const { server } = await open()
  const names = Array.from({ length: 25 }, (_, n) => `q${n}`)
  for (const name of names) {
    await server.call('POST', '/subscribers', { name, via: 'pull', event_types: ['t'] })
    await server.call('GET', `/events/subscribe?subscription=${name}&worker_id=${name}`)
  }
  for (const list of ['subscribers', 'workers']) {
    const page = async (query: string) => (await server.call('GET', `/${list}${query}`)).json
    const { total, ...first } = await page('')
    expect(first).toMatchObject({ limit: 20, offset: 0 })
    const rest = await page(`?limit=1000&offset=20`)
    const all = [...first[list], ...rest[list]].map((one) => one.worker_id ?? one.name)
    expect(all).toHaveLength(total)
    expect(all).toEqual(expect.arrayContaining(names))
    expect(new Set(all).size).toBe(total)
    expect((await server.call('GET', `/${list}?limit=0`)).json).toMatchObject({ field: 'limit', value: '0' })
  }
})
