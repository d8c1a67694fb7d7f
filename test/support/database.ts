import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { openPostgres, type PostgresDatabase, type PostgresOptions } from '../../src/db/postgres.ts'
import type { ServerAddress } from './server.ts'

export interface TestDatabase {
  readonly connection: ServerAddress
  /** Its name on the server. */
  readonly database: string
  open(options?: Omit<PostgresOptions, 'connection' | 'pool'>): Promise<PostgresDatabase>
  /** Closes whatever open() gave out, then removes the database. */
  drop(): Promise<void>
}

/** A database of its own, so that test files can run side by side. */
export async function createTestDatabase(name = 'test'): Promise<TestDatabase> {
  const server = inject('postgres')
  const database = `posthorn_${name}_${randomBytes(6).toString('hex')}`
  // template0 is never in use, while a copy of template1 fails if anybody is connected to it.
  await administer(server, `create database ${database} template template0`)
  const connection = { ...server, database }
  const opened: PostgresDatabase[] = []
  return {
    connection,
    database,
    async open(options = {}) {
      const postgres = await openPostgres({ ...options, connection })
      opened.push(postgres)
      return postgres
    },
    async drop() {
      await Promise.all(opened.map((postgres) => postgres.close()))
      await administer(server, `drop database if exists ${database} with (force)`)
    },
  }
}

async function administer(server: ServerAddress, statement: string): Promise<void> {
  const client = new pg.Client({ ...server })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
