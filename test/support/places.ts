import type pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { createPool } from '../../src/db/pool.ts'
import { openPostgres, type PostgresDatabase } from '../../src/db/postgres.ts'
import { checkPostgresOptions } from '../../src/db/postgres-options.ts'
import { emptySchema, type Pristine, readPristine } from './empty-schema.ts'
import type { ServerAddress } from './server.ts'

/** An empty schema with connections that know its plans from earlier tests: with new connections a hub takes twice as long. */
export interface Place {
  readonly schema: string
  /** For one hub. */
  readonly pool: pg.Pool
  /** For the keys of an API server. */
  readonly keysPool: pg.Pool
  /** For the test itself. */
  readonly db: PostgresDatabase
}

interface OpenPlace extends Place {
  readonly pristine: Pristine
}

/** The places of a test file. No two users in a test share a place; the next test gets the same places, emptied. */
export class Places {
  readonly #connection: ServerAddress
  readonly #freshSchema: () => string
  readonly #all = new Set<OpenPlace>()
  readonly #free: OpenPlace[] = []
  readonly #taken: OpenPlace[] = []

  constructor(connection: ServerAddress, freshSchema: () => string) {
    this.#connection = connection
    this.#freshSchema = freshSchema
  }

  /** What the last test took is free again. */
  nextTest(): void {
    this.#free.push(...this.#taken.splice(0))
  }

  async take(keepFor: 'test' | 'file'): Promise<Place> {
    const place = (await this.#takeFree()) ?? (await this.#open())
    if (keepFor === 'test') this.#taken.push(place)
    return place
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map(closePools))
  }

  /** A place that a test has left in disorder is not given to another test. */
  async #takeFree(): Promise<OpenPlace | undefined> {
    for (;;) {
      const place = this.#free.pop()
      if (place === undefined) return undefined
      const isAtRest = [place.pool, place.keysPool].every((pool) => pool.idleCount === pool.totalCount)
      if (isAtRest && (await emptySchema(place.db, place.pristine))) return place
      this.#all.delete(place)
      void closePools(place)
    }
  }

  async #open(): Promise<OpenPlace> {
    const schema = this.#freshSchema()
    const db = await openPostgres({ connection: this.#connection, schema, poolMax: 2 })
    await migrate(db)
    const pristine = await readPristine(db)
    const place = { schema, pool: this.#openPool(5), keysPool: this.#openPool(2), db, pristine }
    this.#all.add(place)
    return place
  }

  /** Set up like the pool that a hub makes for itself. */
  #openPool(poolMax: number): pg.Pool {
    const pool = createPool(checkPostgresOptions({ connection: this.#connection, poolMax }), true)
    // Unheard while no hub listens, the end of an idle connection would end the process.
    pool.on('error', () => undefined)
    return pool
  }
}

async function closePools({ pool, keysPool, db }: Place): Promise<void> {
  // A connection that a test has not brought back is cut when the database is dropped.
  for (const each of [pool, keysPool]) void each.end()
  await db.close({ withinMs: 100 })
}
