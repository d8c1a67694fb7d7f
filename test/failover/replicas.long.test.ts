import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createPosthorn } from '../../src/create.ts'
import { openPostgres } from '../../src/db/postgres.ts'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { createServer } from '../../src/http/server.ts'
import { KeyRing } from '../../src/keys/key-ring.ts'
import { createLogger } from '../../src/observe/log.ts'
import { observeRequests } from '../../src/observe/request-metrics.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import { findPrograms, type Replicas, startReplicas } from '../support/replicas.js'

const programs = await findPrograms()
if (programs === undefined) {
  process.stdout.write(
    'failover: skipped, as neither the embedded server nor PostgreSQL 15 of Debian is here\n',
  )
}

// Each goes on with the servers as the one before left them.
describe.skipIf(programs === undefined)('two servers, one a standby of the other', () => {
  let replicas: Replicas
  const hubs: Posthorn[] = []

  beforeAll(async () => {
    replicas = await startReplicas({ programs: programs as string })
  }, 120_000)
  afterEach(async () => {
    await Promise.all(hubs.splice(0).map((hub) => hub.stop({ graceMs: 100 })))
  })
  afterAll(() => replicas.close())

  async function open(database: string): Promise<Posthorn> {
    const hub = await createPosthorn({ database, poolMax: 5, log: false })
    hubs.push(hub)
    return hub
  }

  /** The API of a hub, and what its answers say. */
  async function serve(hub: Posthorn) {
    const db = await openPostgres({ connection: replicas.url, poolMax: 2 })
    const keys = new KeyRing({ db, adminKey: undefined })
    const routes = apiRoutes(hub, { isDraining: () => false, version: '0.0.0' })
    const server = createServer({
      ...{ routes, keys, observe: observeRequests(hub.metrics), log: createLogger(false) },
    })
    return {
      ready: async () => (await server.app.inject({ url: '/readyz' })).statusCode,
      publish: async (payload: string) =>
        (await server.app.inject({ method: 'POST', url: '/events', payload: { type: 'a', payload } }))
          .statusCode,
      close: async () => {
        await server.close()
        await keys.stop()
        await db.close()
      },
    }
  }

  test('a hub does not open on a standby, and says why', async () => {
    const opening = open(replicas.standby.url)
    await expect(opening).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    await expect(opening).rejects.toThrow(/127\.0\.0\.1:\d+ is a standby and takes no writes/)
  })

  test('of several hosts in a URL the one that takes writes is used', async () => {
    const hub = await open(replicas.url)
    const { id } = await hub.publish({ type: 'a', payload: 1 })
    expect(await replicas.primary.query('select id::int from posthorn.events')).toEqual([{ id }])
  })

  test('while a synchronous standby is away publishes do not hang, and the server is not ready', async () => {
    const hub = await open(replicas.url)
    const { ready, publish, close } = await serve(hub)
    await hub.start()
    await replicas.synchronize(true)
    await hub.publish({ type: 'a', payload: 'before' })
    expect(await ready()).toBe(200)
    replicas.link.freeze()
    expect(await publish('under way')).toBe(504)
    expect(await publish('later')).toBe(503)
    expect(await ready()).toBe(503)
    replicas.link.heal()
    while ((await ready()) !== 200) await delay(20)
    const { id } = await hub.publish({ type: 'a', payload: 'after' })
    const rows = await replicas.primary.query(
      `select payload from posthorn.events where id >= $1 - 10 order by id`,
      [id],
    )
    // Nothing was cancelled: what was under way is stored.
    expect(rows.map(({ payload }) => payload).slice(-3)).toEqual(['"before"', '"under way"', '"after"'])
    await close()
  })

  test('an idle server is not ready either while a synchronous standby is away', async () => {
    const hub = await open(replicas.url)
    const { ready, close } = await serve(hub)
    expect(await ready()).toBe(200)
    replicas.link.freeze()
    while ((await ready()) !== 503) await delay(20)
    replicas.link.heal()
    while ((await ready()) !== 200) await delay(20)
    await close()
  })

  test('a commit whose wait for the standby was cancelled by somebody is not taken for a safe one', async () => {
    const hub = await open(replicas.url)
    replicas.link.freeze()
    const publishing = hub.publish({ type: 'a', payload: 'cancelled' })
    const outcome = publishing.then(
      () => 'acknowledged',
      (error) => error.code,
    )
    for (;;) {
      const cancelled = await replicas.primary.query(
        `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`,
      )
      if (cancelled.length > 0) break
    }
    expect(await outcome).toBe('COMMIT_UNKNOWN')
    replicas.link.heal()
    await replicas.synchronize(true)
    await replicas.synchronize(false)
  })

  test('after a failover a hub finds the new primary by itself, and gives no id twice', async () => {
    const hub = await open(replicas.url)
    const handled: unknown[] = []
    hub.on('b', { name: 'b' }, async (event) => void handled.push(event.payload))
    await hub.start()
    replicas.link.freeze()
    // Acknowledged, and lost with the primary: the standby is asynchronous.
    const lost = await hub.publish({ type: 'c', payload: 'lost' })
    replicas.primary.kill()
    await replicas.promote()
    const tried = async () => hub.publish({ type: 'b', payload: 'kept' }).catch(() => undefined)
    let kept = await tried()
    // A publish that is refused at once leaves no turn to the connections: the pause does.
    for (; kept === undefined; kept = await tried()) await delay(20)
    expect(kept.id).toBeGreaterThan(lost.id + 2 ** 28 - 1000)
    while (handled.length === 0) await delay(20)
    expect(await hub.event(lost.id)).toBeUndefined()
    expect(await hub.sweep()).toBeDefined()
    const figures = await hub.scrape()
    expect(figures).toMatch(/posthorn_alerts_total\{alert="posthorn.database.promoted"\} 1/)
  })

  test('a crash of the server, which is no promotion, has no ids jump', async () => {
    const hub = await open(replicas.url)
    const before = await hub.publish({ type: 'a', payload: 1 })
    replicas.standby.kill()
    await replicas.standby.start()
    const tried = async () => hub.publish({ type: 'a', payload: 2 }).catch(() => undefined)
    let after = await tried()
    for (; after === undefined; after = await tried()) await delay(20)
    // A crash skips up to 32 ids that were logged ahead.
    expect(after.id - before.id).toBeLessThan(100)
    expect(after.id).toBeGreaterThan(before.id)
  })
})
