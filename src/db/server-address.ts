import type { Connection } from './database.ts'

/** Where the server is, if it is reached over a network. */
export async function serverAddresses(db: Pick<Connection, 'query'>): Promise<string[]> {
  const { rows } = await db.query<{ address: string | null }>(
    'select host(inet_server_addr()) as address',
    [],
  )
  return rows.flatMap(({ address }) => address ?? [])
}
