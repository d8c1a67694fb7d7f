import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKey } from '../../src/keys/api-keys.ts'
import { type TestAnswer, type TestServer, useServers } from '../support/http.ts'
import { startProxy, type TestProxy } from '../support/proxy.ts'
import { eventually } from '../support/signal.ts'
import { socketsTo } from '../support/sockets.ts'

/** What the API answers while its database cannot be reached, and that it is whole again when it can. */

let proxy: TestProxy
// Before the servers' own, so that it runs after them: what they close should find the database.
afterEach(() => proxy.close())
const servers = useServers('away')
beforeEach(async () => {
  proxy = await startProxy(servers.connection)
})
afterEach(async () => {
  proxy.heal()
  await proxy.accept().catch(() => undefined)
})

const adminKey = 'a key that needs no database'
/** Two seconds on a machine that is not busy. Whoever waited for a statement's own time limit would take longer than this. */
const answeredMsMax = 9_500
/** Ten seconds on a machine that is not busy. */
const backMsMax = 30_000
const poolMax = 5
/** Of a hub, its listener and its keys. */
const connectionsMax = poolMax + 1 + 2

/** The hub's and the keys' own question whether the server is back. */
const probesMax = 2

const ways = [
  { how: 'refuses connections', leave: () => proxy.refuse(), come: () => proxy.accept() },
  { how: 'resets connections', leave: () => proxy.reset(), come: () => proxy.heal() },
  { how: 'is a black hole', leave: () => proxy.blackhole(), come: () => proxy.heal() },
  { how: 'hears but cannot be heard', leave: () => proxy.blackhole('answers'), come: () => proxy.heal() },
]

describe.each(ways)('a database that $how', ({ leave, come }) => {
  test('makes every call that needs it 503 within two seconds, and all works again when it is back', async () => {
    const server = await open({ adminKey })
    const leased = await lease(server)
    await leave()

    // A statement may be under way before anybody knows that it will get no answer.
    for (const { call, answer } of await all(server, callsOf(leased))) {
      const isWrite = call.method === 'POST' || call.path.startsWith('/events/subscribe')
      expect(isWrite ? [503, 504] : [503], `${call.method} ${call.path}`).toContain(answer.status)
    }
    for (const { call, answer } of await all(server, callsOf(leased))) {
      expect([answer.status, answer.json.code], `${call.method} ${call.path}`).toEqual([
        503,
        'database_unavailable',
      ])
    }

    expect((await timed(server, { method: 'GET', path: '/metrics' })).status).toBe(200)

    await come()
    await isBack(server)
    await isWhole(server)
  })

  test('makes the check of a key 503, and leaves the probes what they are', async () => {
    const server = await open({ freshMs: 0 })
    const options = { name: 'reader', scopes: ['read'], actor: 'test' } as const
    const headers = { authorization: `Bearer ${(await createKey(server.db, options)).text}` }
    expect((await server.call('GET', '/events', undefined, headers)).status).toBe(200)
    await leave()

    const [listed, ready, healthy, live] = await Promise.all([
      timed(server, { method: 'GET', path: '/events', headers }),
      timed(server, { method: 'GET', path: '/readyz' }),
      timed(server, { method: 'GET', path: '/healthz' }),
      timed(server, { method: 'GET', path: '/livez' }),
    ])
    expect([listed.status, listed.json.code]).toEqual([503, 'database_unavailable'])
    expect([ready.status, ready.json]).toEqual([503, { status: 'database_unavailable' }])
    expect(healthy.status).toBe(503)
    expect([live.status, live.json]).toEqual([200, { status: 'ok' }])

    await come()
    const back = performance.now()
    await eventually('a key is known again', async () => {
      return (await server.call('GET', '/events', undefined, headers)).status === 200
    })
    await eventually('it is ready', async () => (await server.call('GET', '/readyz')).status === 200)
    expect(performance.now() - back).toBeLessThan(backMsMax)
  })
})

describe('a publish whose connection is lost', () => {
  const event = { title: 't', tags: 'a', payload: { n: 1 } }
  const key = { 'idempotency-key': 'order-1' }

  test.each([
    { what: 'statement', when: 'before' },
    { what: 'statement', when: 'after' },
    { what: 'batch', when: 'before' },
    { what: 'batch', when: 'after' },
  ] as const)(
    'when all of its $what has been sent, $when the server has seen it, is 504, and a repeat makes one event',
    async ({ what, when }) => {
      const server = await open({})
      const publish = () =>
        what === 'statement'
          ? server.call('POST', '/events', event, key)
          : server.call('POST', '/events/batch', [{ ...event, idempotency_key: 'order-1' }])
      proxy.cutAt('commit\0', when)
      const cut = await publish()
      expect([cut.status, cut.json.code, cut.headers.get('retry-after')]).toEqual([
        504,
        'commit_unknown',
        '1',
      ])
      const repeated = await publish()
      expect(repeated.status).toBe(201)
      // A server that finds nobody to tell of the statement may not come to the COMMIT that was sent with it.
      const replayed = when === 'after' ? (what === 'batch' ? ['true'] : ['true', null]) : [null]
      expect(replayed).toContain(repeated.headers.get('idempotency-replayed'))
      expect((await server.call('GET', '/events')).json.total).toBe(1)
    },
  )

  test.each(['all', 'answers'] as const)(
    'into a black hole of %s is 504 within two seconds, and a repeat makes one event',
    async (what) => {
      const server = await open({})
      await server.call('POST', '/events', { title: 't', tags: 'b', payload: 0 })
      proxy.blackhole(what)
      const lost = await timed(server, { method: 'POST', path: '/events', body: event, headers: key })
      expect([lost.status, lost.json.code]).toEqual([504, 'commit_unknown'])
      proxy.heal()
      let repeated = lost
      await eventually('it can be published again', async () => {
        repeated = await server.call('POST', '/events', event, key)
        return repeated.status === 201
      })
      expect(repeated.headers.get('idempotency-replayed')).toBe(what === 'answers' ? 'true' : null)
      expect((await server.call('GET', '/events?tags=a')).json.total).toBe(1)
    },
  )

  test('after its commit is stored all the same', async () => {
    const server = await open({ freshMs: 0 })
    // What the answer says of retries is read after the commit.
    proxy.cutAt('read_subscriptions', 'before')
    const { status, json } = await server.call('POST', '/events', event)
    expect(status).toBe(201)
    expect((await server.call('GET', `/events/${json.id}`)).status).toBe(200)
    expect((await server.call('GET', '/events')).json.total).toBe(1)
  })

  test('is no reason to doubt that a list was only read', async () => {
    const server = await open({ adminKey })
    proxy.cutAt('commit\0', 'before')
    const { status, json } = await timed(server, { method: 'GET', path: '/events' })
    expect([status, json.code]).toEqual([503, 'database_unavailable'])
  })
})

describe('a long poll that waits', () => {
  test.each(ways)('outlives a database that $how, and gets what is published afterwards', async (way) => {
    const server = await open({ adminKey })
    const parked = await park(server)
    await way.leave()
    for (let round = 0; round < 2; round++)
      await all(server, [{ method: 'GET', path: '/events/subscribe?tags=a&worker_id=v' }])
    await way.come()
    const id = await publishAgain(server)
    const { status, json } = await parked.answer
    expect([status, json.id]).toEqual([200, id])
  })

  test('goes on waiting when the connection is cut as it looks', async () => {
    const server = await open({ adminKey })
    const parked = await park(server)
    proxy.cutAt('lease_each', 'before')
    const id = await publishAgain(server)
    const { status, json } = await parked.answer
    expect([status, json.id]).toEqual([200, id])
  })
})

test('what was leased for a client that has gone is handed back once the database is there again', async () => {
  const server = await open({})
  const { id } = (await server.call('POST', '/events', { title: 't', tags: 'a', payload: 1 })).json
  const { pull } = server.hub
  const { signal } = new AbortController()
  const request = {
    subscription: 'work',
    tags: ['a'],
    workerId: 'gone',
    limit: 1,
    leaseMs: 600_000,
    waitMs: 0,
  }
  const { runs } = await pull.lease({ ...request, begins: 'granted', suspects: true, signal })
  expect(runs).toHaveLength(1)
  proxy.reset()
  const handedBack = pull.handBack(runs)
  await expect(server.hub.event(id)).rejects.toMatchObject({ status: 503 })
  proxy.heal()
  await handedBack
  expect((await server.call('GET', '/events/subscribe?tags=a&worker_id=w')).json).toMatchObject({
    id,
    attempt: 1,
  })
})

test('a flood into a black hole leaves no more sockets open than the pool has connections', async () => {
  const server = await open({ adminKey })
  await all(server, Array(20).fill({ method: 'GET', path: '/events' }))
  proxy.blackhole()
  for (let round = 0; round < 2; round++) {
    const calls = Array.from({ length: 100 }, (_, n) =>
      n % 2 === 0
        ? { method: 'GET', path: '/events' }
        : { method: 'POST', path: '/events', body: { title: 't', tags: 'a', payload: n } },
    )
    await all(server, calls)
    await eventually(
      'what was given up is closed',
      async () => (await socketsTo(proxy.connection.port)) <= connectionsMax + probesMax,
    )
  }
  proxy.heal()
  await isBack(server)
  await isWhole(server)
})

const admin = { authorization: `Bearer ${adminKey}` }

interface TestCall {
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

function open(setup: { adminKey?: string; freshMs?: number }): Promise<TestServer> {
  const connection = { ...proxy.connection, application_name: 'api' }
  return servers.open({ ...setup, connection, hub: { poolMax } })
}

/** In time, and with word of when to try again if it is later. */
async function timed(server: TestServer, call: TestCall): Promise<TestAnswer> {
  const { method, path, body, headers = admin } = call
  const began = performance.now()
  const answer = await server.call(method, path, body, headers)
  const tookMs = performance.now() - began
  expect(tookMs, `${method} ${path} took ${Math.round(tookMs)} ms`).toBeLessThan(answeredMsMax)
  if (answer.status >= 500 && !isProbe(path)) expect(answer.headers.get('retry-after')).toBe('1')
  return answer
}

function isProbe(path: string): boolean {
  return /^\/(readyz|livez|healthz|metrics)$/.test(path)
}

/** At once. */
function all(server: TestServer, calls: readonly TestCall[]) {
  return Promise.all(calls.map(async (call) => ({ call, answer: await timed(server, call) })))
}

interface Leased {
  readonly id: number
  readonly token: string
}

async function lease(server: TestServer): Promise<Leased> {
  await server.call('POST', '/events', { title: 't', tags: 'a', payload: 0 }, admin)
  const { json } = await server.call('GET', '/events/subscribe?tags=a&worker_id=w', undefined, admin)
  return { id: json.id, token: json.lease_token }
}

/** A long poll that has looked, and found nothing. */
async function park(server: TestServer): Promise<{ answer: Promise<TestAnswer> }> {
  const path = '/events/subscribe?tags=a&worker_id=w&wait=60'
  const answer = server.call('GET', path, undefined, admin)
  await eventually('it waits', () => server.hub.pull.waiting === 1)
  await eventually('it asks nothing any more', async () => {
    const { rows } = await server.db.query(
      `select 1 from pg_stat_activity
      where datname = current_database() and application_name = 'api'
        and (state <> 'idle' or state_change > clock_timestamp() - interval '100 ms')`,
    )
    return rows.length === 0
  })
  return { answer }
}

/** One of each kind that reaches the database. */
function callsOf({ id, token }: Leased): TestCall[] {
  const post = (path: string, body?: unknown) => ({ method: 'POST', path, body })
  const get = (path: string) => ({ method: 'GET', path })
  return [
    post('/events', { title: 't', tags: 'b', payload: 1 }),
    post('/events', { title: 't', tags: 'b', payload: 1, idempotency_key: 'k' }),
    post('/events/batch', [{ type: 'b', payload: 1 }]),
    get('/events/subscribe?tags=c&worker_id=w'),
    get('/events/subscribe?tags=c&worker_id=new&wait=30'),
    post(`/events/${id}/start`, { lease_token: token }),
    post(`/events/${id}/heartbeat`, { worker_id: 'w' }),
    post(`/events/${id}/complete`, { lease_token: token }),
    post(`/events/${id}/fail`, { worker_id: 'w' }),
    post('/events/settle', { outcomes: [{ event_id: id, lease_token: token, outcome: 'complete' }] }),
    post(`/events/${id}/cancel`),
    post(`/events/${id}/reset`),
    get('/events'),
    get(`/events/${id}`),
    get('/workers'),
    get('/subscribers'),
    post('/subscribers', { name: 'late', via: 'pull', event_types: ['late'] }),
  ]
}

/** Whatever was of unknown fate is told apart by its tag. */
async function publishAgain(server: TestServer): Promise<number> {
  let id = 0
  await eventually('something can be published', async () => {
    const event = { title: 't', tags: 'a', payload: 1, idempotency_key: 'again' }
    const { status, json } = await server.call('POST', '/events', event, admin)
    id = json.id
    return status === 201
  })
  return id
}

async function isBack(server: TestServer): Promise<void> {
  const began = performance.now()
  await eventually('every kind of call works', async () => {
    const ready = await server.call('GET', '/readyz')
    const published = await server.call('POST', '/events', { title: 't', tags: 'back', payload: 1 }, admin)
    const leased = await server.call('GET', '/events/subscribe?tags=back&worker_id=w', undefined, admin)
    if (ready.status !== 200 || published.status !== 201 || leased.status !== 200) return false
    const claim = { lease_token: leased.json.lease_token }
    const completed = await server.call('POST', `/events/${leased.json.id}/complete`, claim, admin)
    const lists = await Promise.all(
      ['/events', `/events/${published.json.id}`, '/subscribers'].map((path) =>
        server.call('GET', path, undefined, admin),
      ),
    )
    return completed.status === 200 && lists.every(({ status }) => status === 200)
  })
  expect(performance.now() - began).toBeLessThan(backMsMax)
}

/** As many connections as before: none lost, none left behind. */
async function isWhole(server: TestServer): Promise<void> {
  const answers = await all(server, Array(40).fill({ method: 'GET', path: '/events' }))
  expect(answers.map(({ answer }) => answer.status)).toEqual(Array(40).fill(200))
  await eventually('the server has let go of those that were cut', async () => {
    const { rows } = await server.db.query<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity
      where datname = current_database() and application_name like 'api%'`,
    )
    return (rows[0]?.count ?? 0) <= connectionsMax
  })
  expect(await socketsTo(proxy.connection.port)).toBeLessThanOrEqual(connectionsMax)
}
