// Writes the text of the migrations into the module that the build made of src/db/packaged-migrations.ts.
import { rmSync, writeFileSync } from 'node:fs'
import { readMigrationFolder } from '../dist/db/migration-folder.js'

const target = new URL('../dist/db/packaged-migrations.js', import.meta.url)
const migrations = await readMigrationFolder(new URL('../migrations/', import.meta.url))
writeFileSync(
  target,
  `const texts = new Map(${JSON.stringify([...migrations])})

export async function packagedMigrations() {
  return texts
}
`,
)
// The source map describes the module that was replaced.
rmSync(new URL(`${target.href}.map`), { force: true })
