import { expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { leaseRuns, settleRuns } from '../support/pulling.ts'

const servers = useServers('http_replays')
const longAgo = '2020-01-01T00:00:00Z'
const nobody = '00000000-0000-7000-8000-000000000000'

/** A pull subscription with so many events, all of them settled in that way. */
async function stock(
  server: TestServer,
  count: number,
  outcome: 'succeeded' | 'buried',
  fields: object = {},
) {
  const billing = { name: 'billing', via: 'pull', event_types: ['invoice.*'], ...fields }
  const { json: subscriber } = await server.call('POST', '/subscribers', billing)
  const events = Array.from({ length: count }, (_, place) => ({
    ...{ type: 'invoice.paid', payload: { place }, ordering_key: `k${place % 2}` },
  }))
  const { json: stored } = await server.call('POST', '/events/batch', { events })
  await finish(server, outcome)
  const ids: number[] = stored.events.map((event: { id: number }) => event.id)
  return { id: subscriber.id as string, ids }
}

/** Settles all that waits; their ids in the order in which they came. */
async function finish({ hub }: TestServer, outcome: 'succeeded' | 'buried'): Promise<number[]> {
  const ids: number[] = []
  for (;;) {
    const runs = await leaseRuns(hub, 'billing', { limit: 100 })
    if (runs.length === 0) return ids
    ids.push(...runs.flatMap((run) => run.deliveries.map(({ event }) => event.id)))
    await settleRuns(hub, runs, outcome === 'succeeded' ? { kind: outcome } : { kind: 'buried', reason: 'x' })
  }
}

test('dead letters are recovered since a moment, in order, and come out once more', async () => {
  const server = await servers.open()
  const { id, ids } = await stock(server, 6, 'buried')
  const { status, json, headers } = await server.call('POST', `/subscribers/${id}/recover?since=${longAgo}`)
  expect(status).toBe(202)
  expect(json).toMatchObject({
    ...{ kind: 'recover', subscriber_id: id, subscriber: 'billing', state: 'completed', total: 6, done: 6 },
    ...{ skipped: 0, removed: 0, remaining: 0, percent: 100, rate_per_second: null, last_error: null },
    request: { since: '2020-01-01T00:00:00.000Z', until: null, dead_letters: 'buried' },
  })
  expect(headers.get('location')).toBe(`/replays/${json.id}`)
  expect((await server.call('GET', `/replays/${json.id}`)).json).toEqual(json)
  const came = await finish(server, 'succeeded')
  for (const rest of [0, 1]) {
    const lane = ids.filter((_, place) => place % 2 === rest)
    expect(came.filter((one) => lane.includes(one))).toEqual(lane)
  }
})

test('the same call again is the same recovery, until it is asked for again on purpose', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 2, 'buried')
  const path = `/subscribers/${id}/recover`
  const first = await server.call('POST', path, { since: longAgo })
  const second = await server.call('POST', `${path}?since=${longAgo}`)
  expect([first.status, second.status]).toEqual([202, 200])
  expect(second.json.id).toBe(first.json.id)
  const third = await server.call('POST', path, { since: longAgo, again: true })
  expect(third.status).toBe(202)
  expect(third.json).toMatchObject({ total: 0, done: 0 })
  expect(third.json.id).not.toBe(first.json.id)
})

test('a dry run counts, and changes nothing', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 3, 'buried')
  for (const [verb, body] of [
    ['recover', { since: longAgo }],
    ['replay', { from: '2090-01-01T00:00:00Z', event_ids: undefined }],
    ['replay', { event_type: 'invoice.*' }],
  ] as const) {
    const answer = await server.call('POST', `/subscribers/${id}/${verb}`, { ...body, dry_run: true })
    expect(answer.status).toBe(200)
    const count = 'from' in body ? 0 : 3
    expect(answer.json).toMatchObject({ dry_run: true, count, removed: 0 })
  }
  expect((await server.call('GET', '/replays')).json.total).toBe(0)
  expect(await finish(server, 'succeeded')).toEqual([])
})

test('a replay sends what was delivered once more; what waits is skipped', async () => {
  const server = await servers.open()
  const { id, ids } = await stock(server, 4, 'succeeded')
  const { json } = await server.call('POST', `/subscribers/${id}/replay`, { event_ids: ids.slice(0, 2) })
  expect(json).toMatchObject({ kind: 'replay', state: 'completed', total: 2, done: 2 })
  expect((await server.call('GET', `/events/${ids[0]}`)).json.status).toBe('PENDING')
  const second = await server.call('POST', `/subscribers/${id}/replay`, { from: longAgo })
  expect(second.json).toMatchObject({ total: 4, done: 2, skipped: 2 })
  expect((await finish(server, 'succeeded')).sort((a, b) => a - b)).toEqual(ids)
  expect((await server.call('GET', `/events/${ids[0]}`)).json.status).toBe('COMPLETED')
})

test('a replay goes on with its rate as time passes, and is aborted in the middle', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 4, 'succeeded')
  const slow = { from: longAgo, rate_per_second: 0.001 }
  const { json } = await server.call('POST', `/subscribers/${id}/replay`, slow)
  expect(json).toMatchObject({ state: 'running', done: 1, remaining: 3, percent: 25 })
  await server.clock.advance(1_001_000)
  const { json: later } = await server.call('GET', `/replays/${json.id}`)
  expect(later).toMatchObject({ state: 'running', done: 2, percent: 50 })
  expect((await server.call('GET', '/replays?state=running')).json.replays).toEqual([later])
  const aborted = await server.call('DELETE', `/replays/${json.id}`)
  expect(aborted.status).toBe(200)
  expect(aborted.json).toMatchObject({
    state: 'aborted',
    done: 2,
    reason: expect.stringContaining('aborted by'),
  })
  expect((await server.call('DELETE', `/replays/${json.id}`)).json).toEqual(aborted.json)
  await server.clock.advance(9_000_000)
  expect((await server.call('GET', `/replays/${json.id}`)).json).toEqual(aborted.json)
  expect(await finish(server, 'succeeded')).toHaveLength(2)
})

test('a replay into a paused subscription is held there', async () => {
  const server = await servers.open()
  const { id, ids } = await stock(server, 2, 'succeeded')
  await server.call('POST', `/subscribers/${id}/pause`)
  const { json } = await server.call('POST', `/subscribers/${id}/replay`, { from: longAgo })
  expect(json).toMatchObject({ state: 'completed', done: 2 })
  expect(await finish(server, 'succeeded')).toEqual([])
  await server.call('POST', `/subscribers/${id}/resume`)
  expect((await finish(server, 'succeeded')).sort((a, b) => a - b)).toEqual(ids)
})

test('a subscription that is deleted has no replay, and ends the one that runs', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 3, 'succeeded')
  const slow = { from: longAgo, rate_per_second: 0.001 }
  const { json } = await server.call('POST', `/subscribers/${id}/replay`, slow)
  await server.call('DELETE', `/subscribers/${id}`)
  await server.clock.advance(0)
  const { json: ended } = await server.call('GET', `/replays/${json.id}`)
  expect(ended).toMatchObject({ state: 'aborted', reason: 'the subscription was deleted' })
  for (const verb of ['recover', 'replay']) {
    const answer = await server.call('POST', `/subscribers/${id}/${verb}`, {
      [verb === 'replay' ? 'from' : 'since']: longAgo,
    })
    expect(answer.status).toBe(404)
  }
})

test('pages of the list follow each other by their links', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 1, 'succeeded')
  for (const event_type of ['a', 'b', 'c'])
    await server.call('POST', `/subscribers/${id}/replay`, { event_type })
  const first = await server.call('GET', `/replays?subscriber=${id}&limit=2`)
  expect(first.json).toMatchObject({ total: 3, limit: 2, offset: 0 })
  const next = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '')?.[1] as string
  const second = await server.call('GET', next)
  expect([...first.json.replays, ...second.json.replays]).toHaveLength(3)
  expect(second.headers.get('link')).toBeNull()
  expect((await server.call('GET', `/replays?subscriber=${nobody}`)).json.total).toBe(0)
})

test.each([
  ['recover', {}, 'since'],
  ['recover', { since: 'yesterday' }, 'since'],
  ['recover', { since: longAgo, until: longAgo }, 'until'],
  ['recover', { since: longAgo, dead_letters: 'lost' }, 'dead_letters'],
  ['recover', { since: longAgo, rate_per_second: 0 }, 'rate_per_second'],
  ['recover', { since: longAgo, from: longAgo }, 'from'],
  ['replay', {}, 'from'],
  ['replay', { dry_run: true }, 'from'],
  ['replay', { from: longAgo, to: '2019-01-01T00:00:00Z' }, 'to'],
  ['replay', { event_ids: [] }, 'event_ids'],
  ['replay', { event_ids: [0] }, 'event_ids[0]'],
  ['replay', { event_type: 'order.*.x' }, 'event_type'],
  ['replay', { filter: { payload: 1 } }, 'filter'],
  ['replay', { filter: { '/payload/a': { prefix: 'a\0' } } }, 'filter /payload/a'],
] as const)('%s %j is refused by the name of the field', async (verb, body, field) => {
  const server = await servers.open()
  const { id } = await stock(server, 1, 'succeeded')
  const { status, json } = await server.call('POST', `/subscribers/${id}/${verb}`, body)
  expect(status).toBe(422)
  expect(json.detail).toContain(field)
  expect((await server.call('GET', '/replays')).json.total).toBe(0)
})

test('what does not exist is not found, and since is given once', async () => {
  const server = await servers.open()
  const { id } = await stock(server, 1, 'succeeded')
  for (const method of ['GET', 'DELETE']) {
    expect((await server.call(method, `/replays/${nobody}`)).status).toBe(404)
  }
  const both = await server.call('POST', `/subscribers/${id}/recover?since=${longAgo}`, { since: longAgo })
  expect(both.status).toBe(422)
})

test('32 who ask at once for the same get one recovery, and each dead letter comes out once', async () => {
  const server = await servers.open()
  const { id, ids } = await stock(server, 20, 'buried')
  const answers = await Promise.all(
    Array.from({ length: 32 }, () => server.call('POST', `/subscribers/${id}/recover?since=${longAgo}`)),
  )
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(1)
  expect((await finish(server, 'succeeded')).sort((a, b) => a - b)).toEqual(ids)
})
