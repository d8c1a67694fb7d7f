import { readMigrationFolder } from './migration-folder.ts'

/**
 * The migrations of this package: name → text. The build writes their text in place of this module
 * (`scripts/embed-migrations.js`): a bundler includes modules, but not a folder beside them.
 */
export function packagedMigrations(): Promise<ReadonlyMap<string, string>> {
  return readMigrationFolder(new URL('../../migrations/', import.meta.url))
}
