import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'

/** Prints one line. */
export type Out = (line: string) => void

export interface Command {
  readonly help: string
  /** Takes the arguments after the command's name. Resolves with the exit code. */
  run(args: readonly string[], out: Out): Promise<number>
}

/** Commands write no log unless LOG_LEVEL is set. */
export function isLogging(): boolean {
  return (process.env.LOG_LEVEL ?? '') !== ''
}

/** Who runs the command, for the admin log. In a container the user may have no name. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    return `cli:${process.getuid?.() ?? 'unknown'}`
  }
}

interface Manifest {
  readonly version: string
  readonly engines: { readonly node: string }
}

/** package.json is two folders above both src/cli and dist/cli. */
export function readManifest(): Manifest {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest
}

/** Lines with the cells of each column one below the other. Columns named in `toTheRight` hold numbers. */
export function alignColumns(
  rows: readonly (readonly string[])[],
  toTheRight: readonly number[] = [],
): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return toTheRight.includes(column) ? cell.padStart(width) : cell.padEnd(width)
      })
      .join('  ')
      .trimEnd(),
  )
}
