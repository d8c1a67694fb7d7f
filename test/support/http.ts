import type { PosthornOptions } from '../../src/config.ts'
import { openPostgres, type PostgresDatabase, type PostgresOptions } from '../../src/db/postgres.ts'
import { apiRoutes } from '../../src/http/routes/index.ts'
import { createServer, type Server, type ServerOptions } from '../../src/http/server.ts'
import { KeyRing } from '../../src/keys/key-ring.ts'
import { createLogger, type Logger } from '../../src/observe/log.ts'
import { observeRequests } from '../../src/observe/request-metrics.ts'
import { type TestPosthorn, testPosthorn } from '../../src/testing/index.ts'
import { type FileDatabase, type TestDatabase, useDatabase } from './database.ts'
import { connectTo, patientDrain, type Where } from './hub.ts'

export interface TestServer extends TestPosthorn {
  readonly url: string
  readonly server: Server
  readonly keys: KeyRing
  readonly db: PostgresDatabase
  /** Whether it has been told to stop. */
  draining: boolean
  /** A request with a body, as JSON unless it is text or bytes; the answer with its body read. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<TestAnswer>
}

export interface TestAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any
}

export interface ServerSetup {
  readonly adminKey?: string
  readonly freshMs?: number
  readonly log?: Logger
  readonly hub?: PosthornOptions
  readonly timeouts?: NonNullable<ServerOptions['timeouts']>
  readonly bodyBytesMax?: number
  /** How long idle connections are kept when it closes. Default 0: no test waits for them. */
  readonly lingerMs?: number
  /** What the API connects to instead of the server: a proxy, say. */
  readonly connection?: TestDatabase['connection']
}

export interface ServerFactory {
  /** The whole API over a hub in a schema of its own, on a port of its own, stopped like a hub. */
  open(setup?: ServerSetup): Promise<TestServer>
  readonly connection: TestDatabase['connection']
}

/** One database per test file. A server has its schema for the test, or for the file if it is opened outside a test. */
export function useServers(name: string): ServerFactory {
  const database = useDatabase(name, { schemas: 2 })
  return {
    async open(setup = {}) {
      const where = await findPlace(database, setup)
      const closing: (() => Promise<unknown>)[] = []
      database.atEnd(async () => {
        for (const close of closing.reverse()) await close()
      })
      const opened = await testPosthorn({ ...setup.hub, ...where.hub })
      const test = { ...opened, drain: patientDrain(opened.drain, where.hub) }
      closing.push(() => test.hub.stop({ graceMs: 100 }))
      await test.hub.start()
      const keysDb = await openPostgres(where.keys)
      closing.push(() => keysDb.close())
      return serve(test, { db: where.db, keysDb }, setup, closing)
    },
    get connection() {
      return database.connection
    },
  }
}

/** At a place of its own, or where and how the test says. */
async function findPlace(
  database: FileDatabase,
  { connection, hub = {} }: ServerSetup,
): Promise<{ hub: Where; keys: PostgresOptions; db: PostgresDatabase }> {
  const options: PosthornOptions = connection === undefined ? hub : { database: connection, ...hub }
  if (options.schema !== undefined) {
    const { schema } = options
    return {
      hub: { schema, database: options.database ?? database.connection, poolMax: options.poolMax ?? 5 },
      keys: { connection: connection ?? database.connection, schema, poolMax: 2 },
      db: await database.open({ schema, poolMax: 2 }),
    }
  }
  const place = await database.takePlace()
  const { schema, db, keysPool } = place
  const keys: PostgresOptions =
    connection === undefined ? { pool: keysPool, schema } : { connection, schema, poolMax: 2 }
  return { hub: connectTo(place, database, options), keys, db }
}

async function serve(
  test: TestPosthorn,
  { db, keysDb }: { db: PostgresDatabase; keysDb: PostgresDatabase },
  { adminKey, freshMs, log, timeouts, bodyBytesMax, lingerMs = 0 }: ServerSetup,
  closing: (() => Promise<unknown>)[],
): Promise<TestServer> {
  const keys = new KeyRing({ db: keysDb, adminKey, ...(freshMs !== undefined && { freshMs }) })
  let draining = false
  const routes = apiRoutes(test.hub, { isDraining: () => draining, version: '0.0.0' })
  const server = createServer({
    observe: observeRequests(test.hub.metrics),
    routes,
    keys,
    log: log ?? createLogger(false),
    lingerMs,
    ...(timeouts && { timeouts }),
    ...(bodyBytesMax && { bodyBytesMax }),
  })
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  closing.push(async () => {
    await test.hub.pull.stop()
    await server.close()
    await keys.stop()
  })
  return {
    ...test,
    ...{ url, server, keys, db },
    get draining() {
      return draining
    },
    set draining(value) {
      draining = value
    },
    call: (method, path, body, headers) => call(url + path, method, body, headers),
  }
}

async function call(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<TestAnswer> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson && text !== '' ? JSON.parse(text) : undefined,
  }
}
