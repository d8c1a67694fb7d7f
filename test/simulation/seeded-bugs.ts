import type { Connection, Database, Statement } from '../../src/db/database.ts'
import { readMigrations } from '../../src/db/migration-files.ts'
import type { Profile } from './commands.ts'

/** A mistake that others have made, put into the real SQL, to see whether the simulation notices. */
export interface SeededBug {
  readonly name: string
  readonly profile: Profile
  /** Changes the schema. */
  prepare?(db: Database): Promise<void>
  /** Changes statements on their way to the database. */
  wrap?(db: Database): Database
}

type Replacement = readonly [found: string, put: string]

export const seededBugs: readonly SeededBug[] = [
  {
    name: 'an unfenced settle',
    profile: 'alone',
    wrap: (db) =>
      withStatements(db, {
        settle: [
          ['where r.id = any($1) and r.token = any($2)', 'where r.id = any($1)'],
          ['and h.id = g.run_id and h.token = g.token', 'and h.id = g.run_id'],
        ],
      }),
  },
  {
    name: 'a lease of the next in a lane while its head is leased',
    profile: 'alone',
    // Every row of a lane's queue is sent out by itself, and SKIP LOCKED takes the one behind the head.
    async prepare(db) {
      await db.query(`drop index ${db.schema}.runs_lane`)
      await replaceAdmit(db, [
        [
          `where not exists (
        select 1 from __schema__.runs r
        where r.subscription = l.subscription and r.ordering_key = l.ordering_key and r.state <> 'delayed')`,
          'where true',
        ],
      ])
    },
  },
  {
    name: 'an admission that goes on from the highest id it has seen',
    profile: 'overlapping',
    async prepare(db) {
      await db.query(`create sequence ${db.schema}.seen_ids`)
      const isAbove = `i.event_ids[1] > (select c.last_value from __schema__.seen_ids c)`
      await replaceAdmit(db, [
        ['if busy then return; end if;', 'if busy then return; end if; since := null;'],
        // What comes in for the second time has an old id: only new arrivals are looked up by the cursor.
        [
          'where since is null and (fenced_subs is null',
          `where (i.event_ids is null or i.again_as is not null or ${isAbove}) and (fenced_subs is null`,
        ],
        [
          'moved := moved + promoted;\nend',
          `perform setval('__schema__.seen_ids', max(e.id)) from __schema__.events e having count(*) > 0;
  moved := moved + promoted;\nend`,
        ],
      ])
    },
  },
  {
    name: 'a reclaim without guards',
    profile: 'alone',
    wrap: (db) =>
      withStatements(db, {
        find_expired: [
          [`where r.state = 'leased' and r.leased_until < ${db.schema}.clock()`, 'where r.token is not null'],
        ],
        take_back: [[` and r.state = 'leased'`, '']],
      }),
  },
]

/** The same database, but for some statements. */
function withStatements(db: Database, replacements: Record<string, readonly Replacement[]>): Database {
  const replaced = new Map<string, Statement>()
  const instead = (statement: Statement): Statement => {
    const changes = replacements[statement.name]
    if (changes === undefined) return statement
    const known = replaced.get(statement.name)
    if (known !== undefined) return known
    const changed = { name: `${statement.name}_changed`, text: replaceAll(statement.text, changes) }
    replaced.set(statement.name, changed)
    return changed
  }
  const connection = (real: Connection): Connection => ({
    query: (text, values) => real.query(text, values),
    run: (statement, values) => real.run(instead(statement), values),
  })
  return {
    ...connection(db),
    schema: db.schema,
    once: (statement, values, options) => db.once(instead(statement), values, options),
    transaction: (work, options) => db.transaction((tx) => work(connection(tx)), options),
    listen: (channel, listener) => db.listen(channel, listener),
    close: () => db.close(),
  }
}

async function replaceAdmit(db: Database, changes: readonly Replacement[]): Promise<void> {
  const head = 'create function __schema__.admit('
  const migration = (await readMigrations()).find(({ text }) => text.includes(head))
  const changed = replaceAll(migration?.text ?? '', changes)
  await db.query(
    changed.replaceAll('create function', 'create or replace function').replaceAll('__schema__', db.schema),
  )
}

/** Throws where there is nothing to replace: a seeded bug must not vanish unnoticed. */
function replaceAll(text: string, changes: readonly Replacement[]): string {
  return changes.reduce((changed, [found, put]) => {
    if (changed.split(found).length !== 2) throw new Error(`Expected once in the statement: ${found}`)
    return changed.replace(found, () => put)
  }, text)
}
