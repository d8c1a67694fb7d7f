import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { dropTemplates } from './template.ts'

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
    /** Names what this run makes for all of its files. */
    run: string
  }
}

/**
 * Gives the whole run one PostgreSQL: the server that POSTHORN_TEST_DATABASE_URL names, or a fresh one of our
 * own that is gone afterwards. Its user must be allowed to create databases.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const run = randomBytes(6).toString('hex')
  project.provide('run', run)
  const url = process.env.POSTHORN_TEST_DATABASE_URL
  if (url !== undefined && url !== '') {
    const address = addressOf(url)
    project.provide('postgres', address)
    return () => dropTemplates(address, run)
  }
  const { startEmbedded } = await import('../../src/db/embedded.ts')
  const directory = await mkdtemp(join(await roomyMemory(), 'posthorn-test-'))
  const server = await startEmbedded({ dataDirectory: join(directory, 'data') })
  project.provide('postgres', server.connection)
  return async () => {
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * In memory where there is room: nothing of this server has to survive the machine, and waiting for a disk is most of
 * what a small transaction takes. The server itself is set up as ever, so that tests see a durable one.
 */
async function roomyMemory(): Promise<string> {
  const memory = '/dev/shm'
  const { bavail, bsize } = await statfs(memory).catch(() => ({ bavail: 0, bsize: 0 }))
  return bavail * bsize > roomBytesMin ? memory : tmpdir()
}

const roomBytesMin = 6 * 1024 ** 3

function addressOf(url: string): ServerAddress {
  const { host, port, user, database, password } = new pg.Client({ connectionString: url })
  const address = { host, port, user: user ?? 'postgres', database: database ?? 'postgres' }
  return password ? { ...address, password } : address
}
