import type pg from 'pg'
import { PosthornError } from '../../errors.ts'
import type { BinariesKind } from './binaries.ts'
import type { Layout } from './layout.ts'

/** What the server says about itself. */
export interface ServerFacts {
  readonly version: string
  readonly binaries: BinariesKind
  readonly settings: Readonly<Record<string, string>>
}

const selectFacts = `
select current_setting('server_version') as version,
       current_setting('cluster_name') as cluster_name,
       (select json_object_agg(name, setting)
          from pg_settings
         where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums')) as settings`

const countOthers = `
select count(*)::int as others
  from pg_stat_activity
 where starts_with(application_name, $1)
   and application_name <> $2`

const presence = 'posthorn presence '

export async function readFacts(client: pg.Client): Promise<ServerFacts> {
  type Row = { version: string; cluster_name: string; settings: Record<string, string> }
  const row = (await client.query<Row>(selectFacts)).rows[0] as Row
  return {
    version: row.version.split(' ')[0] as string,
    binaries: row.cluster_name === 'posthorn-bundled' ? 'bundled' : 'path',
    settings: row.settings,
  }
}

/** Checks the server's own answer: a role, a database or somebody else's start may have changed the settings. */
export function checkDurability(layout: Layout, pid: number, { settings }: ServerFacts): void {
  const needed = ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums']
  const unsafe = needed.filter((name) => settings[name] !== 'on')
  if (unsafe.length === 0) return
  const found = unsafe.map((name) => `${name} is ${settings[name]}`).join(', ')
  const reason = `the server (process ${pid}) is not durable: ${found}`
  throw new PosthornError('DATA_DIRECTORY_UNUSABLE', { directory: layout.directory, reason, pid, settings })
}

/** Makes the connection a sign that we use the server. The sign ends with our process, however that ends. */
export async function showPresence(client: pg.Client, id: string): Promise<void> {
  await client.query(`select set_config('application_name', $1, false)`, [presence + id])
}

/** How many other processes have joined the server. Other clients, such as psql, do not keep it alive. */
export async function othersPresent(client: pg.Client, id: string): Promise<number> {
  const result = await client.query<{ others: number }>(countOthers, [presence, presence + id])
  return result.rows[0]?.others ?? 0
}
