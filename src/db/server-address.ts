import { lookup } from 'node:dns/promises'
import type { PostgresDatabase } from './postgres.ts'

/** The addresses of the database server and of those that may take over: webhooks must not be sent there. */
export async function serverAddresses(db: Pick<PostgresDatabase, 'query' | 'hosts'>): Promise<string[]> {
  const { rows } = await db.query<{ address: string | null }>('select host(inet_server_addr()) as address')
  // A host whose name cannot be resolved cannot be reached by a webhook either.
  const others = await Promise.all(db.hosts.map((host) => lookup(host, { all: true }).catch(() => [])))
  return [
    ...rows.flatMap(({ address }) => address ?? []),
    ...others.flatMap((found) => found.map(({ address }) => address)),
  ]
}
