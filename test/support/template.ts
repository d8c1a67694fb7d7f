import pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { openPostgres } from '../../src/db/postgres.ts'
import { storeEmptying } from './empty-schema.ts'
import type { ServerAddress } from './server.ts'

/** From here on a file migrates what it needs beyond its template: the next size would take longer to make. */
const schemasMax = 32

/** The names of the schemas that a template holds, in the order in which they are handed out. */
export function schemaName(number: number): string {
  return `t${number}`
}

/**
 * Makes a database that holds at least as many migrated schemas as are wanted, up to a bound, and returns how many.
 * Copying the files of a schema takes a tenth of the time of migrating it. The template that is copied has a power
 * of two of them, and is made when first asked for, for all the files of the run.
 */
export async function createWithSchemas(
  server: ServerAddress,
  { database, run, schemas }: { database: string; run: string; schemas: number },
): Promise<number> {
  const size = Math.min(schemasMax, 2 ** Math.ceil(Math.log2(Math.max(1, schemas))))
  await withClient(server, async (client) => {
    const lock = `hashtext('templates of ${run}')`
    await client.query(`select pg_advisory_lock(${lock})`)
    try {
      await ensureTemplate(client, { server, run, size })
    } finally {
      await client.query(`select pg_advisory_unlock(${lock})`)
    }
    await copyDatabase(client, database, templateName(run, size))
  })
  return size
}

/** An empty database. template0 is never in use, while a copy of template1 fails if anybody is connected to it. */
export async function createEmpty(server: ServerAddress, database: string): Promise<void> {
  await withClient(server, (client) => copyDatabase(client, database, 'template0'))
}

export async function dropDatabase(server: ServerAddress, database: string): Promise<void> {
  await withClient(server, (client) => client.query(`drop database if exists ${database} with (force)`))
}

/** For a server that outlives the run. */
export async function dropTemplates(server: ServerAddress, run: string): Promise<void> {
  await withClient(server, async (client) => {
    for (let size = 1; size <= schemasMax; size *= 2)
      await client.query(`drop database if exists ${templateName(run, size)}`)
  })
}

function templateName(run: string, size: number): string {
  return `posthorn_template_${run}_${size}`
}

interface TemplateRequest {
  readonly server: ServerAddress
  readonly run: string
  readonly size: number
}

/** Made of the one with half as many under another name, so that one that is only half done is never copied. */
async function ensureTemplate(client: pg.Client, { server, run, size }: TemplateRequest): Promise<void> {
  const name = templateName(run, size)
  const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
  if (rowCount !== 0) return
  if (size > 1) await ensureTemplate(client, { server, run, size: size / 2 })
  const unfinished = `${name}_unfinished`
  await client.query(`drop database if exists ${unfinished} with (force)`)
  await copyDatabase(client, unfinished, size === 1 ? 'template0' : templateName(run, size / 2))
  for (let number = Math.floor(size / 2) + 1; number <= size; number++) {
    const connection = { ...server, database: unfinished }
    const postgres = await openPostgres({ connection, schema: schemaName(number), poolMax: 1 })
    try {
      await migrate(postgres)
    } finally {
      await postgres.close()
    }
  }
  if (size === 1) {
    const unused = { ...server, database: unfinished }
    await withClient(unused, (inside) => storeEmptying(inside, schemaName(1)))
  }
  await client.query(`alter database ${unfinished} rename to ${name}`)
}

/** By its files where PostgreSQL would else write a copy to its log as well, which takes ten times as long. */
async function copyDatabase(client: pg.Client, database: string, template: string): Promise<void> {
  const { rows } = await client.query(`select current_setting('server_version_num')::int as version`)
  const strategy = rows[0].version >= 150_000 ? 'strategy file_copy' : ''
  await client.query(`create database ${database} template ${template} ${strategy}`)
}

async function withClient<T>(server: ServerAddress, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...server })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
