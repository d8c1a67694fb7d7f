import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readMigrationFolder } from '../src/db/migration-folder.ts'

const built = fileURLToPath(new URL('../dist/', import.meta.url))
const migrations = new URL('../migrations/', import.meta.url)

test('the build holds the migrations as they are now', async () => {
  const { packagedMigrations } = await import(join(built, 'db/packaged-migrations.js'))
  expect(await packagedMigrations()).toEqual(await readMigrationFolder(migrations))
  expect(await readFile(join(built, 'db/packaged-migrations.js'), 'utf8')).not.toContain('import')
})
