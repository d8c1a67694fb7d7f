import { createHash } from 'node:crypto'
import type { Queryable } from '../../src/db/database.ts'

/**
 * Describes everything in a schema: object → description, such as `index runs.runs_ready` → its definition. Two schemas
 * with the same description do the same, whatever their comments and line breaks, and in whatever order they were built.
 */
export async function readCatalog(db: Queryable, schema: string): Promise<Map<string, string>> {
  const catalog = new Map<string, string>()
  for (const statement of statements) {
    const { rows } = await db.query<{ object: string; description: string; source: string | null }>(
      statement,
      [schema],
    )
    for (const { object, description, source } of rows) {
      const text =
        source === null ? description : `${description} source ${hash(withoutSchema(source, schema))}`
      catalog.set(withoutSchema(object, schema), withoutSchema(text, schema))
    }
  }
  for (const object of [...catalog.keys()].filter((object) => object.startsWith('table '))) {
    const table = object.slice('table '.length)
    const rows = await readRows(db, `${schema}.${table}`)
    if (rows.length > 0) catalog.set(`rows ${table}`, JSON.stringify(rows))
  }
  return new Map([...catalog].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The rows of a new schema, without values that differ between schemas: times, random ids, timelines, the ledger. */
async function readRows(db: Queryable, table: string): Promise<unknown[]> {
  if (table.endsWith('.migrations')) return []
  const { rows } = await db.query<{ row: Record<string, unknown> }>(
    `select to_jsonb(t) as row from ${table} t`,
  )
  const isStable = ([name, value]: [string, unknown]) =>
    !name.endsWith('_at') && name !== 'timeline' && !/^[\da-f-]{36}$/.test(String(value))
  return rows.map(({ row }) => Object.fromEntries(Object.entries(row).filter(isStable)))
}

/** Reads a fixture: one object per line. */
export function parseCatalog(text: string): Map<string, string> {
  const lines = text.trimEnd().split('\n')
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]))
}

/** Servers of different versions name the schema with and without quotes. */
function withoutSchema(text: string, schema: string): string {
  const bare = schema.replaceAll('"', '')
  return text.replaceAll(`"${bare}"`, bare).replaceAll(`${bare}.`, '').replaceAll(bare, '(schema)')
}

/** Of the source without its comments and line breaks. */
function hash(source: string): string {
  const text = source
    .replace(/--.*$/gm, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([(),;]) ?/g, '$1')
    .trim()
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

const tables = `
select format('table %s', c.relname) as object,
  format('%s%s', case c.relpersistence when 'u' then 'unlogged' else 'logged' end,
    ' with ' || (select string_agg(o, ', ' order by o) from unnest(c.reloptions) as o)) as description,
  null as source
from pg_class c
where c.relnamespace = $1::regnamespace and c.relkind = 'r'`

const columns = `
select format('column %s.%s', c.relname, a.attname) as object,
  concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
    case a.attidentity when 'a' then 'identity' end, case a.attgenerated when 's' then 'generated' end,
    'default ' || pg_get_expr(d.adbin, d.adrelid)) as description,
  null as source
from pg_attribute a
join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'v', 'c') and a.attnum > 0 and not a.attisdropped`

/** Without those that only say that a column is not null: older servers have no rows for them. */
const constraints = `
select format('constraint %s.%s', c.relname, k.conname) as object, pg_get_constraintdef(k.oid) as description, null as source
from pg_constraint k
join pg_class c on c.oid = k.conrelid
where k.connamespace = $1::regnamespace and k.contype <> 'n'`

const indexes = `
select format('index %s.%s', i.tablename, i.indexname) as object, i.indexdef as description, null as source
from pg_indexes i
where i.schemaname = btrim($1, '"')`

const functions = `
select format('function %s(%s)', p.proname, oidvectortypes(p.proargtypes)) as object,
  concat_ws(' ', format('(%s)', pg_get_function_arguments(p.oid)), 'returns ' || pg_get_function_result(p.oid),
    'language ' || l.lanname, case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
    case when p.proisstrict then 'strict' end, case when p.prosecdef then 'security definer' end,
    'set ' || array_to_string(p.proconfig, ', ')) as description,
  p.prosrc as source
from pg_proc p
join pg_language l on l.oid = p.prolang
where p.pronamespace = $1::regnamespace`

/** Some versions of the server name the table of a column even where a view reads a single table. */
const views = `
select format('view %s', v.viewname) as object, 'reads' as description,
  case when v.definition like '%JOIN%' then v.definition
    else regexp_replace(v.definition, '\\m[a-z_]+\\.(?=[a-z])', '', 'g') end as source
from pg_views v
where v.schemaname = btrim($1, '"')`

const triggers = `
select format('trigger %s.%s', c.relname, t.tgname) as object,
  concat_ws(' ', pg_get_triggerdef(t.oid), case t.tgenabled when 'A' then 'always' end) as description,
  null as source
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
where c.relnamespace = $1::regnamespace and not t.tgisinternal`

const enums = `
select format('type %s', t.typname) as object, string_agg(e.enumlabel, ', ' order by e.enumsortorder) as description,
  null as source
from pg_type t
join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = $1::regnamespace
group by t.typname`

const sequences = `
select format('sequence %s', s.sequencename) as object,
  format('%s from %s to %s start %s by %s cache %s', s.data_type, s.min_value, s.max_value, s.start_value, s.increment_by,
    s.cache_size) as description,
  null as source
from pg_sequences s
where s.schemaname = btrim($1, '"')`

const statements = [tables, columns, constraints, indexes, functions, views, triggers, enums, sequences]
