import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type TestServer, useServers } from '../support/http.ts'
import { eventually } from '../support/signal.ts'

/** A database that is there, but has no room or no time, is worth another try: 503 and never 500. */

const servers = useServers('overload')
const work = { title: 't', tags: 'a', payload: 1 }

describe.each([
  ['lock_not_available', '55P03'],
  ['disk_full', '53100'],
  ['out_of_memory', '53200'],
  ['configuration_limit_exceeded', '53400'],
  ['serialization_failure', '40001'],
  ['deadlock_detected', '40P01'],
  ['read_only_sql_transaction', '25006'],
])('a database that says %s (%s)', (_, code) => {
  test('makes a publish and a completion 503 with Retry-After', async () => {
    const server = await servers.open()
    await server.call('POST', '/events', work)
    const leased = await server.call('GET', '/events/subscribe?tags=a&worker_id=w')
    await failAt(server, 'events', code)
    await failAt(server, 'runs', code)
    const claim = { lease_token: leased.json.lease_token }
    for (const answer of [
      await server.call('POST', '/events', work),
      await server.call('POST', '/events/batch', [work, { ...work, idempotency_key: 'k' }]),
      await server.call('POST', `/events/${leased.json.id}/complete`, claim),
    ]) {
      expect([answer.status, answer.json.code, answer.headers.get('retry-after')]).toEqual([
        503,
        code === '53100' ? 'disk_full' : 'database_unavailable',
        '1',
      ])
    }
  })
})

test('a full disk is said to be full, and makes the server unready while it can still read', async () => {
  const server = await servers.open()
  expect((await server.call('GET', '/readyz')).status).toBe(200)
  await failAt(server, 'events', '53100')
  const { status, json } = await server.call('POST', '/events', work)
  expect([status, json.code, json.detail]).toEqual([503, 'disk_full', expect.stringContaining('disk')])
  // Whether it is ready is asked once a second, and a full disk is believed for ten.
  await eventually('it is not ready', async () => {
    await server.call('POST', '/events', work)
    const ready = await server.call('GET', '/readyz')
    return ready.status === 503 && ready.json.status === 'disk_full'
  })
  expect((await server.call('GET', '/events')).status).toBe(200)
  expect((await server.call('GET', '/livez')).status).toBe(200)
})

describe('a batch of publishes', () => {
  test('is not tried one by one when the database has no room', async () => {
    const server = await servers.open()
    const tries = await failAt(server, 'events', '53100')
    const event = { type: 'a', payload: 1 }
    const answers = await Promise.allSettled(Array.from({ length: 100 }, () => server.hub.publish(event)))
    expect(answers.every(({ status }) => status === 'rejected')).toBe(true)
    expect(await tries()).toBe(1)
  })

  test('does not wait for those whose idempotency key an open transaction holds', async () => {
    const server = await servers.open({ hub: { poolMax: 4 } })
    const keyed = (key: string) => ({ ...work, idempotency_key: key })
    const holder = await hold(server, ['held 1', 'held 2', 'held 3'])
    const held = [1, 2, 3].map((n) => server.hub.publish(heldEvent(`held ${n}`)))
    let answered = 0
    for (const call of held) void call.then(() => answered++)
    const others = Array.from({ length: 20 }, (_, n) => server.call('POST', '/events', keyed(`free ${n}`)))
    const answers = await Promise.all(others)
    expect(answers.map(({ status }) => status)).toEqual(others.map(() => 201))
    expect((await server.call('POST', '/events', keyed('after them'))).status).toBe(201)
    expect(answered).toBe(0)
    await holder.end('commit')
    const repeats = await Promise.all(held)
    expect(repeats.map(({ id, replayed }) => [id, replayed])).toEqual(holder.ids.map((id) => [id, true]))
  })

  test('says of a key that stays held that it is worth another try', async () => {
    const server = await servers.open()
    const holder = await hold(server, ['held'])
    try {
      const answer = await server.call('POST', '/events', { ...work, idempotency_key: 'held' })
      expect(answer).toMatchObject({ status: 503, json: { code: 'key_held', key: 'held' } })
      expect(answer.headers.get('retry-after')).toBe('1')
    } finally {
      await holder.end('rollback')
    }
    const answer = await server.call('POST', '/events', { ...work, idempotency_key: 'held' })
    expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([201, null])
  })
})

test('a statement that takes too long is not taken for a database that is away, also by those who read', async () => {
  const server = await servers.open({ hub: { statementTimeoutMs: 2_000 } })
  const { json } = await server.call('POST', '/events', work)
  const unlock = await lockEvents(server)
  try {
    const answers = await Promise.all([
      server.call('POST', '/events', work),
      server.call('GET', '/events'),
      server.call('GET', `/events/${json.id}`),
      server.call('GET', '/events/subscribe?tags=a&worker_id=w'),
    ])
    for (const { status, headers, json } of answers) {
      expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'statement_timeout', '10'])
      expect(json.detail).not.toMatch(/reached|away|connect/)
    }
    await expect(server.hub.publish({ title: 't', tags: ['a'], payload: 1 })).rejects.toMatchObject({
      code: 'STATEMENT_TIMEOUT',
    })
  } finally {
    await unlock()
  }
})

test('a pool that slow statements have used up keeps nobody from asking how we are, and is not taken for an outage', async () => {
  const server = await servers.open({ hub: { poolMax: 2 } })
  const unlock = await lockEvents(server)
  try {
    const slow = [
      ...Array.from({ length: 10 }, (_, n) => server.call('GET', `/events?offset=${n}`)),
      ...Array.from({ length: 10 }, (_, n) =>
        server.call('POST', '/events', { ...work, idempotency_key: `k${n}` }),
      ),
    ]
    await eventually('they wait', async () => (await waiting(server)) === 2)
    for (let round = 0; round < 2; round++) {
      const live = await timed(server, '/livez')
      const ready = await timed(server, '/readyz')
      expect([live.status, ready.status, ready.json]).toEqual([200, 503, { status: 'database_unavailable' }])
    }
    await unlock()
    const answers = await Promise.all(slow)
    expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(200), ...Array(10).fill(201)])
  } finally {
    await unlock()
  }
})

async function timed(server: TestServer, path: string) {
  const began = performance.now()
  const answer = await server.call('GET', path)
  // A call that waits for one of the connections waits ten seconds.
  expect(performance.now() - began).toBeLessThan(9_000)
  return answer
}

const heldEvent = (idempotencyKey: string) => ({ title: 't', tags: ['a'], payload: 1, idempotencyKey })

/** Publishes with these keys in a transaction that stays open. */
async function hold({ hub }: TestServer, keys: readonly string[]) {
  const client = await connect()
  const tx = { query: (text: string, values?: unknown[]) => client.query(text, values) }
  await client.query('begin')
  const ids: number[] = []
  for (const idempotencyKey of keys) {
    ids.push((await hub.publish(heldEvent(idempotencyKey), { tx })).id)
  }
  return {
    ids,
    async end(how: 'commit' | 'rollback') {
      await client.query(how)
      await client.end()
    },
  }
}

/** Says how often it was tried. */
async function failAt(server: TestServer, table: string, code: string): Promise<() => Promise<number>> {
  const { schema } = server.db
  await server.db.query(
    `create sequence ${schema}.${table}_tries;
    create function ${schema}.fail_${table}() returns trigger language plpgsql as $$ begin
      perform nextval('${schema}.${table}_tries');
      raise exception 'no room' using errcode = '${code}';
    end $$;
    create trigger fail before insert or update or delete on ${schema}.${table}
      for each statement execute function ${schema}.fail_${table}()`,
  )
  return async () => {
    const { rows } = await server.db.query<{ tries: number }>(
      `select last_value::int as tries from ${schema}.${table}_tries`,
    )
    return rows[0]?.tries ?? 0
  }
}

async function lockEvents({ db }: TestServer): Promise<() => Promise<void>> {
  const client = await connect()
  await client.query(`begin; lock table ${db.schema}.events in access exclusive mode`)
  let ending: Promise<void> | undefined
  return () => {
    ending ??= client.end()
    return ending
  }
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(servers.connection)
  await client.connect()
  return client
}

async function waiting({ db }: TestServer): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0]?.count ?? 0
}
