import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'

export interface ServerAddress {
  host: string
  port: number
  user: string
  database: string
  password?: string
}

declare module 'vitest' {
  interface ProvidedContext {
    postgres: ServerAddress
  }
}

/**
 * Gives the whole run one PostgreSQL: the server that POSTHORN_TEST_DATABASE_URL names, or a fresh one of our
 * own that is gone afterwards. Its user must be allowed to create databases.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const url = process.env.POSTHORN_TEST_DATABASE_URL
  if (url !== undefined && url !== '') {
    project.provide('postgres', addressOf(url))
    return async () => undefined
  }
  const { startEmbedded } = await import('../../src/db/embedded.ts')
  const directory = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
  const server = await startEmbedded({ dataDirectory: join(directory, 'data') })
  project.provide('postgres', server.connection)
  return async () => {
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

function addressOf(url: string): ServerAddress {
  const { host, port, user, database, password } = new pg.Client({ connectionString: url })
  const address = { host, port, user: user ?? 'postgres', database: database ?? 'postgres' }
  return password ? { ...address, password } : address
}
