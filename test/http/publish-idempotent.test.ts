import { expect, test } from 'vitest'
import { createKey } from '../../src/keys/api-keys.ts'
import { type TestServer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'

/** Publishing twice is publishing once; publishing together is committing together. */

const servers = useServers('publish_idempotent')
const work = { title: 'Work', tags: 'a', payload: { n: 1 } }
const fact = { type: 'a.b', payload: { n: 1 } }
const publish = (server: TestServer, body: unknown, headers: Record<string, string> = {}) =>
  server.call('POST', '/events', body, headers)
const total = async ({ hub }: TestServer) => (await hub.listEvents()).total
const isReplay = ({ headers }: { headers: Headers }) => headers.get('idempotency-replayed') === 'true'

/** How many transactions have stored the events that there are. */
async function transactions({ db }: TestServer): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(distinct xmin::text)::int as count from ${db.schema}.events`,
  )
  return rows[0]?.count as number
}

test.each(['Idempotency-Key', 'X-Idempotency-Key'])('%s makes a publish repeatable', async (name) => {
  const server = await servers.open()
  for (const event of [work, fact]) {
    const headers = { [name]: `key-${Object.keys(event).length}` }
    const first = await publish(server, event, headers)
    const second = await publish(server, event, headers)
    expect(isReplay(first)).toBe(false)
    expect(isReplay(second)).toBe(true)
    expect(second).toMatchObject({ status: first.status, text: first.text })
  }
  expect(await total(server)).toBe(2)
})

test('the key may be in the body, in either header or in all of them', async () => {
  const server = await servers.open()
  const body = JSON.stringify({ ...fact, idempotency_key: 'k' })
  const both = { 'idempotency-key': 'k', 'x-idempotency-key': 'k' }
  const answers = [await publish(server, body), await publish(server, body, both)]
  expect(answers.map(isReplay)).toEqual([false, true])
  expect(answers[1]?.text).toBe(answers[0]?.text)
})

test('the first answer is given again whatever has become of the event', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'k' }
  const first = await publish(server, work, headers)
  const { id } = first.json
  const repeat = async () => {
    const answer = await publish(server, work, headers)
    expect(isReplay(answer)).toBe(true)
    expect(answer).toMatchObject({ status: 201, text: first.text })
  }
  await server.call('GET', '/events/subscribe?tags=a&worker_id=w')
  await repeat()
  await server.call('POST', `/events/${id}/fail`, { worker_id: 'w' })
  await repeat()
  await server.clock.advance(300_000)
  await server.call('GET', '/events/subscribe?tags=a&worker_id=w')
  await server.call('POST', `/events/${id}/complete`, { worker_id: 'w' })
  await repeat()
  expect((await server.call('GET', `/events/${id}`)).json.status).toBe('COMPLETED')
})

test('also when its subscription is gone, when nobody wanted it, and in another trace', async () => {
  const server = await servers.open()
  const subscriber = { name: 'mine', via: 'pull', event_types: ['a.b'], max_retries: 7 }
  const { json: mine } = await server.call('POST', '/subscribers', subscriber)
  const trace = (n: number) => `00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e${n}-01`
  const cases: [key: string, event: object, status: string][] = [
    ['wanted', fact, 'PENDING'],
    ['unwanted', { type: 'c', payload: 1, require_route: true }, 'FAILED'],
    ['not asked for', { type: 'c', payload: 1 }, 'COMPLETED'],
  ]
  const answers = new Map<string, string>()
  for (const [key, event, status] of cases) {
    const headers = { 'idempotency-key': key, traceparent: trace(1), tracestate: 'a=1' }
    const { json, text } = await publish(server, event, headers)
    expect(json).toMatchObject({ status, traceparent: trace(1), attributes: { tracestate: 'a=1' } })
    answers.set(key, text)
  }
  await server.call('DELETE', `/subscribers/${mine.id}`)
  for (const [key, event] of cases) {
    const headers = { 'idempotency-key': key, traceparent: trace(2), tracestate: 'b=2' }
    const answer = await publish(server, event, headers)
    expect(isReplay(answer)).toBe(true)
    expect(answer.text).toBe(answers.get(key))
  }
})

test('the same key with other bytes is refused, and changes nothing', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'k' }
  const { json } = await publish(server, '{"type":"a","payload":1}', headers)
  for (const body of ['{"type":"a","payload":2}', '{"type":"a","payload":1 }', '{"payload":1,"type":"a"}']) {
    const other = await publish(server, body, headers)
    expect(other).toMatchObject({
      status: 422,
      json: { code: 'idempotency_mismatch', key: 'k', event_id: json.id },
    })
    expect(isReplay(other)).toBe(false)
  }
  expect(await publish(server, '{"type":"a","payload":1}', headers)).toMatchObject({
    status: 202,
    json: { id: json.id },
  })
  expect(await total(server)).toBe(1)
})

test('what was refused has not used up its key', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'k' }
  expect(await publish(server, { type: '', payload: 1 }, headers)).toMatchObject({ status: 422 })
  const answer = await publish(server, fact, headers)
  expect(answer.status).toBe(202)
  expect(isReplay(answer)).toBe(false)
})

test('the keys of two callers never meet', async () => {
  const server = await servers.open()
  const callers = await Promise.all(
    ['one', 'two'].map((name) => createKey(server.db, { name, scopes: ['publish'], actor: 'test' })),
  )
  const answers = []
  for (const round of [1, 2]) {
    for (const { text } of callers) {
      const headers = { authorization: `Bearer ${text}`, 'idempotency-key': 'k' }
      const answer = await publish(server, fact, headers)
      expect(isReplay(answer)).toBe(round === 2)
      answers.push(answer.json.id)
    }
  }
  const [a, b] = answers
  expect(a).not.toBe(b)
  expect(answers).toEqual([a, b, a, b])
})

test('64 at once with one key are one event, and one of them is not a repeat', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'k' }
  const answers = await Promise.all(Array.from({ length: 64 }, () => publish(server, work, headers)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1)
  expect(await total(server)).toBe(1)
  expect(await server.call('GET', '/events/subscribe?tags=a&worker_id=w')).toMatchObject({ status: 200 })
  expect(await server.call('GET', '/events/subscribe?tags=a&worker_id=w')).toMatchObject({ status: 204 })
})

test('64 at once with one key and two bodies: one body wins, the others are told', async () => {
  const server = await servers.open()
  const headers = { 'idempotency-key': 'k' }
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, n) => publish(server, { ...fact, payload: n % 2 }, headers)),
  )
  const stored = answers.filter(({ status }) => status === 202)
  expect(stored).toHaveLength(32)
  expect(new Set(stored.map(({ text }) => text)).size).toBe(1)
  expect(answers.filter(({ status }) => status === 422)).toHaveLength(32)
  expect(await total(server)).toBe(1)
})

test.each([
  ['with a key each', 48, (n: number) => ({ 'idempotency-key': `k${n}` })],
  ['without keys', 4, () => ({})],
])('64 at once share their commits: %s', async (_, transactionsMax, headersOf) => {
  // A machine that is busy may take so long until all have come that those with keys no longer wait for each other.
  await eventually('they share their commits', async () => {
    const server = await servers.open()
    const arrived = arrivals(server, 64)
    const answers = await server.db.transaction(async (tx) => {
      // Until this ends nothing can be stored, so that what comes meanwhile has to wait, and does so together.
      await tx.query(`lock table ${server.db.schema}.events in share row exclusive mode`)
      const posts = Array.from({ length: 64 }, (_, n) =>
        publish(server, { ...fact, payload: n }, headersOf(n)),
      )
      await arrived
      return { posts }
    })
    const all = await Promise.all(answers.posts)
    expect(all.map(({ status, json }) => [status, json.payload])).toEqual(all.map((_, n) => [202, n]))
    expect(new Set(all.map(({ json }) => json.id)).size).toBe(64)
    return (await transactions(server)) <= transactionsMax
  })
})

/** Resolves when so many requests have come in whole. */
function arrivals({ server }: TestServer, count: number): Promise<void> {
  let missing = count
  return new Promise((resolve) => {
    server.app.server.on('request', (request) => {
      request.once('end', () => {
        if (--missing === 0) setImmediate(resolve)
      })
    })
  })
}

test('one event that the database refuses fails alone among those it came with', async () => {
  const server = await servers.open()
  const { schema } = server.db
  await server.db.query(`alter table ${schema}.events add constraint no_poison check (type <> 'poison')`)
  const types = Array.from({ length: 64 }, (_, n) => (n === 31 ? 'poison' : n === 7 ? 'not a type' : 'a.b'))
  const answers = await Promise.all(
    types.map((type, n) =>
      publish(server, { type, payload: n }, n % 2 ? { 'idempotency-key': `k${n}` } : {}),
    ),
  )
  const expected = types.map((type) => (type === 'poison' ? 500 : type === 'a.b' ? 202 : 422))
  expect(answers.map(({ status }) => status)).toEqual(expected)
  expect(await total(server)).toBe(62)
  // In one turn of the event loop, hence in one statement for sure.
  const alike = types.map((type) => (type === 'poison' ? type : 'a.b'))
  const together = await Promise.allSettled(alike.map((type) => server.hub.publish({ type, payload: 1 })))
  expect(together.map(({ status }) => status)).toEqual(
    alike.map((type) => (type === 'poison' ? 'rejected' : 'fulfilled')),
  )
  expect(await total(server)).toBe(62 + 63)
})
