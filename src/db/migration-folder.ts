import { readdir, readFile } from 'node:fs/promises'

/**
 * The migrations of a folder in the order of their names: name → text. A migration is an SQL file, `0002_more.sql`, or a
 * folder of SQL files, `0001_baseline/`: its parts make one text, in the order of their names.
 */
export async function readMigrationFolder(directory: URL): Promise<ReadonlyMap<string, string>> {
  const folder = withSlash(directory)
  const entries = await readdir(folder, { withFileTypes: true })
  const migrations = await Promise.all(
    entries
      .filter((entry) => entry.isDirectory() || isSql(entry.name))
      .map(async ({ name }): Promise<[string, string]> => {
        if (isSql(name)) return [name.slice(0, -'.sql'.length), await readFile(new URL(name, folder), 'utf8')]
        return [name, await readParts(new URL(`${name}/`, folder))]
      }),
  )
  return new Map(migrations.sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function readParts(folder: URL): Promise<string> {
  const files = (await readdir(folder)).filter(isSql).sort()
  const parts = await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')))
  return parts.join('\n')
}

function isSql(name: string): boolean {
  return name.endsWith('.sql')
}

/** Without it a relative URL would replace the folder's name. */
function withSlash(directory: URL): URL {
  return directory.href.endsWith('/') ? directory : new URL(`${directory.href}/`)
}
