import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbedded } from '../../src/db/embedded.ts'
import { createTestDatabase } from '../support/database.ts'
import type { ServerAddress } from '../support/server.ts'

interface Options {
  readonly connection: ServerAddress
  readonly server?: object
  readonly bouncer?: object
  readonly seed: number
  readonly secs: number
  readonly attemptsMin?: number
  readonly standstillMs?: number
  readonly faults?: string
  readonly only?: readonly string[]
}
export interface Report {
  readonly violations: readonly { readonly rule: string; readonly text: string }[]
  readonly counts: Readonly<Record<string, number>>
  readonly history: readonly object[]
  readonly answers: object
}
interface Bouncer {
  readonly close: () => Promise<void>
}

/** The driver runs in plain JavaScript, as its processes do. */
export const load = (file: string) => import(new URL(file, import.meta.url).href)
const { runChaos } = (await load('./main.js')) as { runChaos: (options: Options) => Promise<Report> }
const { openBouncer } = (await load('./bouncer.js')) as {
  openBouncer: (connection: ServerAddress) => Promise<Bouncer | undefined>
}

/** Many processes on a machine that others use as well: whoever is slow is not yet wrong. */
export const patience = { timeout: 900_000 }
const standstillMs = 90_000

/** How soon something began is judged by `npm run chaos`, on a machine that has nothing else to do. */
const rulesOfTime = ['stand', 'late start', 'recovery']

export function apartFromTime<V extends { readonly rule: string }>(violations: readonly V[]): V[] {
  return violations.filter(({ rule }) => !rulesOfTime.includes(rule))
}

/** On a database of the server that all tests share. */
export async function run(options: Omit<Options, 'connection'>): Promise<Report> {
  const database = await createTestDatabase('chaos')
  try {
    return await runChaos({ connection: database.connection, standstillMs, ...options })
  } finally {
    await database.drop()
  }
}

/** On a server that nobody else has, so that it can be killed, restarted and slowed down. */
export async function runAlone(options: Omit<Options, 'connection'>): Promise<Report> {
  const directory = await mkdtemp(join(tmpdir(), 'posthorn-chaos-'))
  const server = await startEmbedded({ dataDirectory: join(directory, 'data') })
  const bouncer = await openBouncer(server.connection)
  try {
    const given = { ...options, server, standstillMs, ...(bouncer && { bouncer }) }
    return await runChaos({ connection: server.connection, ...given })
  } finally {
    await bouncer?.close()
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
}
