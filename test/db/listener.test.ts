import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Listening } from '../../src/db/database.ts'
import { Listener } from '../../src/db/listener.ts'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'
import { createSignal, eventually } from '../support/signal.ts'

let testDatabase: TestDatabase
let database: PostgresDatabase

beforeAll(async () => {
  testDatabase = await createTestDatabase('listener')
  database = await testDatabase.open()
})

afterAll(() => testDatabase?.drop())

interface Heard {
  readonly payloads: string[]
  gaps: number
}

async function listen(to: PostgresDatabase, channel: string): Promise<Heard & Listening> {
  const heard = { payloads: [] as string[], gaps: 0 }
  const listening = await to.listen(channel, {
    onNotify: (payload) => heard.payloads.push(payload),
    onGap: () => heard.gaps++,
  })
  return Object.assign(heard, listening)
}

const notify = (channel: string, payload: string) =>
  database.query('select pg_notify($1, $2)', [channel, payload])

const application_name = 'posthorn listener'

async function listeners(): Promise<{ pid: number; query: string }[]> {
  const select =
    'select pid, query from pg_stat_activity where datname = current_database() and application_name = $1'
  const { rows } = await database.query<{ pid: number; query: string }>(select, [application_name])
  return rows
}

const listenerPids = async () => (await listeners()).map(({ pid }) => pid)
const lastQueries = async () => (await listeners()).map(({ query }) => query)

test('hears its own channel and no other, and begins with a gap', async () => {
  const heard = await listen(database, 'Odd "name"')
  expect(heard.gaps).toBe(1)
  await notify('other', 'not for us')
  await notify('Odd "name"', 'first')
  await notify('Odd "name"', '')
  await eventually('both are heard', () => heard.payloads.length >= 2)
  expect(heard.payloads).toEqual(['first', ''])
  expect(heard.gaps).toBe(1)
  await heard.stop()
})

test('survives the loss of its connection, tells the gap, and hears again', async () => {
  const heard = await listen(database, 'news')
  for (let round = 1; round <= 2; round++) {
    for (const pid of await listenerPids()) await database.query('select pg_terminate_backend($1)', [pid])
    await eventually('the gap is told', () => heard.gaps === round + 1)
    await notify('news', `after ${round}`)
    await eventually('the news is heard', () => heard.payloads.includes(`after ${round}`))
  }
  await heard.stop()
})

test('a listener that throws goes on hearing', async () => {
  const payloads: string[] = []
  const listening = await database.listen('thrower', {
    onGap: () => undefined,
    onNotify: (payload) => {
      payloads.push(payload)
      throw new Error('thrown')
    },
  })
  await notify('thrower', 'one')
  await notify('thrower', 'two')
  await eventually('both are heard', () => payloads.length === 2)
  await listening.stop()
})

test('notices a connection that is silently dead, and hears again once the server answers', async () => {
  const proxy = await startProxy(testDatabase.connection)
  const heard = createSignal()
  const interrupted = createSignal()
  let gaps = 0
  const listening = new Listener({
    channel: 'silent',
    healthIntervalMs: 10,
    newClient: () => new pg.Client({ ...proxy.connection, application_name, connectionTimeoutMillis: 200 }),
    notify: async (channel) => void (await notify(channel, '')),
    listener: { onNotify: heard.give, onGap: () => gaps++ },
    log: { info: () => undefined, warn: interrupted.give },
  })
  await listening.started
  await eventually('it asks whether the connection lives', async () =>
    (await lastQueries()).includes('select 1'),
  )
  proxy.blackhole()
  await interrupted.given
  proxy.heal()
  await eventually('the gap is told', () => gaps === 2)
  await notify('silent', 'after')
  await heard.given
  await listening.stop()
  await proxy.close()
})

describe('stopping', () => {
  test('is final and safe twice', async () => {
    const heard = await listen(database, 'stopped')
    await Promise.all([heard.stop(), heard.stop()])
    await eventually('its connection is gone', async () => (await listenerPids()).length === 0)
    await notify('stopped', 'late')
    expect(heard).toMatchObject({ payloads: [], gaps: 1 })
  })

  test('works while connections are refused', async () => {
    const proxy = await startProxy(testDatabase.connection)
    const through = await openPostgres({ connection: proxy.connection })
    const heard = await listen(through, 'news')
    await proxy.close()
    await heard.stop()
    await through.close()
    expect(heard.gaps).toBe(1)
  })

  test('does not wait for a connection that is being made', async () => {
    const proxy = await startProxy(testDatabase.connection)
    const began = createSignal()
    let clients = 0
    const listening = new Listener({
      channel: 'news',
      newClient: () => {
        if (++clients === 2) began.give()
        return new pg.Client({ ...proxy.connection, application_name })
      },
      notify: async (channel) => void (await notify(channel, '')),
      listener: { onNotify: () => undefined, onGap: () => undefined },
      log: { info: () => undefined, warn: () => undefined },
    })
    await listening.started
    proxy.blackhole()
    proxy.drop()
    await began.given
    const asked = performance.now()
    await listening.stop()
    expect(performance.now() - asked).toBeLessThan(20_000)
    await proxy.close()
  })

  test('comes with closing the database', async () => {
    const own = await testDatabase.open()
    await listen(own, 'news')
    await own.close()
    await eventually('its connection is gone', async () => (await listenerPids()).length === 0)
  })
})

test('listening goes on trying where the database is away at first', async () => {
  const proxy = await startProxy(testDatabase.connection)
  const through = await openPostgres({ connection: proxy.connection })
  proxy.blackhole()
  const heard = await listen(through, 'later')
  expect(heard.gaps).toBe(0)
  proxy.heal()
  await eventually('it listens', () => heard.gaps === 1)
  await notify('later', 'there')
  await eventually('it hears', () => heard.payloads.length === 1)
  await heard.stop()
  await through.close()
  await proxy.close()
})
