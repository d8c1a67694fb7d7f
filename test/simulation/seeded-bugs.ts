import type { Connection, Database, Statement } from '../../src/db/database.ts'
import { readMigrations } from '../../src/db/migration-files.ts'
import { changeStatement, findBug, type PlantedBug, sqlOf } from '../support/planted-bugs.js'
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

export const seededBugs: readonly SeededBug[] = [
  { name: 'an unfenced settle', bug: 'unfenced-settle', profile: 'alone' as const },
  {
    name: 'a lease of the next in a lane while its head is leased',
    bug: 'lease-behind-head',
    profile: 'alone' as const,
  },
  {
    name: 'an admission that goes on from the highest id it has seen',
    bug: 'admit-by-cursor',
    profile: 'overlapping' as const,
  },
  { name: 'a reclaim without guards', bug: 'unguarded-reclaim', profile: 'alone' as const },
].map(({ name, bug, profile }) => {
  const planted = findBug(bug)
  return {
    name,
    profile,
    async prepare(db) {
      const migrations = await readMigrations()
      for (const text of sqlOf(planted, { schema: db.schema, migrations })) await db.query(text)
    },
    wrap: (db) => withChanges(db, planted),
  }
})

/** The same database, but for some statements. */
function withChanges(db: Database, bug: PlantedBug): Database {
  const changed = new Map<string, Statement>()
  const instead = (statement: Statement): Statement => {
    const known = changed.get(statement.name) ?? changeStatement(bug, statement, db.schema)
    changed.set(statement.name, known)
    return known
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
