import { readdir, readFile } from 'node:fs/promises'

/** The SQL files of a folder in the order of their names: name → text. */
export async function readMigrationFolder(directory: URL): Promise<ReadonlyMap<string, string>> {
  const folder = directory.href.endsWith('/') ? directory : new URL(`${directory.href}/`)
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')))
  return new Map(files.map((file, place) => [file, texts[place] as string]))
}
