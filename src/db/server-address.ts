import { lookup } from 'node:dns/promises'
import type { PostgresDatabase } from './postgres.ts'

/** Where the server is, if it is reached over a network, and those that may take over. */
export async function serverAddresses(db: Pick<PostgresDatabase, 'query' | 'hosts'>): Promise<string[]> {
  const { rows } = await db.query<{ address: string | null }>(
    'select host(inet_server_addr()) as address',
    [],
  )
  // A name that cannot be resolved now is no server that could be reached either.
  const others = await Promise.all(db.hosts.map((host) => lookup(host, { all: true }).catch(() => [])))
  return [
    ...rows.flatMap(({ address }) => address ?? []),
    ...others.flatMap((found) => found.map(({ address }) => address)),
  ]
}
