import pg from 'pg'
import { onTestFinished, vi } from 'vitest'
import type { Attempt } from '../../src/consume/attempt.ts'
import type { HubFactory } from '../support/hub.ts'

export const options = { name: 'm', concurrency: 2 } as const

export async function connect(hubs: HubFactory): Promise<pg.Client> {
  const client = new pg.Client(hubs.connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

export type Handle = (event: { payload: unknown }, attempt: Attempt) => Promise<void> | void

/** An owner of a memory queue, and a mover that asks for the queue in the database. Both have this handler. */
export async function openBoth(hubs: HubFactory, schema: string, handle: Handle, { leaseMs = 30_000 } = {}) {
  const begun: unknown[] = []
  const handler: Handle = (event, attempt) => {
    begun.push(event.payload)
    return handle(event, attempt)
  }
  const owner = await hubs.open({ schema })
  owner.hub.on('t', { ...options, leaseMs, storage: 'memory' }, handler)
  await owner.hub.start()
  const mover = await hubs.open({ schema })
  mover.hub.on('t', { ...options, leaseMs }, handler)
  const client = await connect(hubs)
  /** Which process has the queue, and for how long; undefined: it is moved. */
  const claim = async () => {
    const { rows } = await client.query<{ token: string | null; until: Date }>(
      `select token, held_until as until from ${schema}.memory_queues`,
    )
    return rows[0]
  }
  return { owner, mover, begun, client, claim }
}

/** What becomes of statements with this name and one of these values, as they are sent. */
export function onStatement(
  name: string,
  answer: (sent: number) => Error | undefined,
  value?: string | null,
): { readonly sent: number } {
  const query = pg.Client.prototype.query
  const count = { sent: 0 }
  vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [statement] = args as [{ name?: string; values?: unknown[] }]
    const isMeant = value === undefined || statement?.values?.map(String).includes(String(value))
    const error = statement?.name?.includes(name) && isMeant ? answer(++count.sent) : undefined
    return error === undefined
      ? (query as (...args: unknown[]) => unknown).apply(this, args)
      : Promise.reject(error)
  } as never)
  return count
}

export const diskFull = () => Object.assign(new Error('disk full'), { code: '53100', severity: 'ERROR' })
