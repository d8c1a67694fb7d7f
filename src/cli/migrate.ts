import { databaseVariables } from '../config.ts'
import { readArguments } from './arguments.ts'
import type { Command } from './command.ts'

const help = `posthorn migrate [--dry-run]

Brings the schema of the database up to date: applies the missing migrations in their order. Servers of the version before
can go on meanwhile. posthorn serve does the same when it starts.

  --dry-run   lists the missing migrations and prints their SQL, for psql or for reading; changes nothing

Environment: DATABASE_URL or POSTHORN_DATA_DIR, and POSTHORN_SCHEMA, as for posthorn serve.

  posthorn migrate --dry-run | psql "$DATABASE_URL"`

export const migrate: Command = {
  help,
  async run(args, out) {
    const { options } = readArguments(args, { known: { 'dry-run': 'boolean' }, variables: databaseVariables })
    const isDryRun = options['dry-run'] !== undefined
    const { withDatabase } = await import('./with-database.ts')
    const { migrate: apply } = await import('../db/migrate.ts')
    await withDatabase({ embedded: isDryRun ? 'existing' : 'any' }, async ({ db }) => {
      const { applied, pending, sql } = await apply(db, { dryRun: isDryRun })
      if (isDryRun) {
        if (pending.length === 0) return out(`-- The schema ${db.schema} is up to date.`)
        out(`-- The schema ${db.schema} lacks ${pending.length}: ${pending.join(', ')}`)
        return out(`\n${sql.trimEnd()}`)
      }
      if (applied.length === 0) return out(`The schema ${db.schema} is up to date.`)
      out(`The schema ${db.schema} is up to date: applied ${applied.join(', ')}.`)
    })
    return 0
  },
}
