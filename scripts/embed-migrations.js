// Writes the text of the migrations into the module that the build made of src/db/packaged-migrations.ts.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

const folder = new URL('../migrations/', import.meta.url)
const target = new URL('../dist/db/packaged-migrations.js', import.meta.url)
const files = readdirSync(folder)
  .filter((file) => file.endsWith('.sql'))
  .sort()
const entries = files.map((file) => [file, readFileSync(new URL(file, folder), 'utf8')])
writeFileSync(
  target,
  `const texts = new Map(${JSON.stringify(entries)})\n\nexport async function packagedMigrations() {\n  return texts\n}\n`,
)
// It tells of the module that is gone.
rmSync(new URL(`${target.href}.map`), { force: true })
