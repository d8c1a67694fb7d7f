import type pg from 'pg'
import type { PostgresDatabase } from '../../src/db/postgres.ts'

/** How a schema was before the first test, and the statements that make it so again. */
export interface Pristine {
  readonly shape: string
  readonly script: string
}

export async function readPristine(db: PostgresDatabase): Promise<Pristine> {
  const { rows } = await db.query<{ script: string }>('select script from public.emptying')
  const script = rows[0]?.script.replaceAll('__schema__', () => db.schema) as string
  return { shape: await shapeOf(db), script }
}

/** False if the test has changed tables or functions, or has left a transaction that holds rows. */
export async function emptySchema(db: PostgresDatabase, { shape, script }: Pristine): Promise<boolean> {
  try {
    await db.query(script)
    return (await shapeOf(db)) === shape
  } catch {
    return false
  }
}

/** Changes with every change of a table, a trigger or a function, but for the clock, which every test may move. */
async function shapeOf(db: PostgresDatabase): Promise<string> {
  const { rows } = await db.query<{ shape: string }>(
    `select md5(string_agg(part, ' ' order by part)) as shape from (
      select 'class ' || oid || ' ' || xmin from pg_class where relnamespace = $1::regnamespace
      union all
      select 'function ' || oid || ' ' || xmin from pg_proc
      where pronamespace = $1::regnamespace and proname <> 'clock'
      union all
      select 'trigger ' || t.oid || ' ' || t.xmin from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where c.relnamespace = $1::regnamespace and c.relname <> 'admin_log'
    ) as parts (part)`,
    [db.schema],
  )
  return rows[0]?.shape as string
}

/** Stores the script that empties a schema like this one, which no test has used. */
export async function storeEmptying(client: pg.Client, schema: string): Promise<void> {
  const script = await writeEmptying(client, schema)
  await client.query('create table public.emptying (script text not null)')
  await client.query('insert into public.emptying values ($1)', [script])
}

async function writeEmptying(client: pg.Client, schema: string): Promise<string> {
  const { rows: relations } = await client.query<{ name: string; kind: 'r' | 'S' }>(
    `select relname as name, relkind as kind from pg_class
    where relnamespace = $1::regnamespace and relkind in ('r', 'S') and relname <> 'migrations'
    order by relname`,
    [schema],
  )
  const { rows: clocks } = await client.query<{ source: string }>(
    `select prosrc as source from pg_proc where oid = '${schema}.clock()'::regprocedure`,
  )
  const lines: string[] = []
  for (const { name, kind } of relations) {
    if (kind === 'S') lines.push(await restartSequence(client, schema, name))
    else lines.push(...(await refillTable(client, schema, name)))
  }
  return [
    'begin',
    `set local lock_timeout = '2s'`,
    // Triggers and references need not follow.
    'set local session_replication_role = replica',
    ...lines,
    restoreClock(clocks[0]?.source as string),
    'commit',
  ].join(';\n')
}

async function restartSequence(client: pg.Client, schema: string, name: string): Promise<string> {
  const { rows } = await client.query<{ last: string; called: boolean }>(
    `select last_value::text as last, is_called as called from ${schema}.${name}`,
  )
  return `select setval('__schema__.${name}', ${rows[0]?.last}, ${rows[0]?.called})`
}

async function refillTable(client: pg.Client, schema: string, name: string): Promise<string[]> {
  if (name === 'admin_log') return [emptyAdminLog]
  const { rows } = await client.query<{ content: string | null; columns: string }>(
    `select
      (select jsonb_agg(to_jsonb(t))::text from ${schema}.${name} t) as content,
      (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
        where attrelid = '${schema}.${name}'::regclass and attnum > 0 and not attisdropped and attgenerated = '') as columns`,
  )
  const { content, columns } = rows[0] as { content: string | null; columns: string }
  const empty = `delete from __schema__.${name}`
  if (content === null) return [empty]
  return [
    empty,
    `insert into __schema__.${name} (${columns}) overriding system value
    select ${columns} from jsonb_populate_recordset(null::__schema__.${name}, '${content.replaceAll("'", "''")}')`,
  ]
}

/** Its trigger lets nobody delete a row, whatever role the session has. */
const emptyAdminLog = `do $$ begin
  if exists (select from __schema__.admin_log) then
    alter table __schema__.admin_log disable trigger admin_log_keeps;
    delete from __schema__.admin_log;
    alter table __schema__.admin_log enable always trigger admin_log_keeps;
  end if;
end $$`

/** Only if it was moved: all plans that read the clock are made anew afterwards. */
function restoreClock(source: string): string {
  const literal = `'${source.replaceAll("'", "''")}'`
  return `do $$ begin
  if (select prosrc from pg_proc where oid = '__schema__.clock()'::regprocedure) <> ${literal} then
    create or replace function __schema__.clock() returns timestamptz language sql stable as ${literal};
  end if;
end $$`
}
