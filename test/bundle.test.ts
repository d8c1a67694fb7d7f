import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const built = fileURLToPath(new URL('../dist/', import.meta.url))
const migrations = fileURLToPath(new URL('../migrations/', import.meta.url))

test('the build holds the migrations as they are now', async () => {
  const { packagedMigrations } = await import(join(built, 'db/packaged-migrations.js'))
  const files = (await readdir(migrations)).filter((file) => file.endsWith('.sql')).sort()
  const now = await Promise.all(files.map(async (file) => [file, await readFile(migrations + file, 'utf8')]))
  expect([...(await packagedMigrations())]).toEqual(now)
  expect(await readFile(join(built, 'db/packaged-migrations.js'), 'utf8')).not.toContain('import')
})
