import { databaseVariables, readConfig, retentionVariables } from '../config.ts'
import type { Storage } from '../retention/retention.ts'
import { readArguments } from './arguments.ts'
import type { Command, Out } from './command.ts'
import { formatDuration } from './duration.ts'

const help = `posthorn storage [--json]

Says how much is stored of what, the largest first, from when the oldest of it is, and how long it is kept. Large tables are
not counted: then the rows are what the last vacuum or analyze has seen, marked with a ~. Changes nothing.

  --json   the same as GET /storage answers

Environment: DATABASE_URL or POSTHORN_DATA_DIR, and POSTHORN_SCHEMA, as for posthorn serve, which may be running meanwhile.`

export const storage: Command = {
  help,
  async run(args, out) {
    const variables = [...databaseVariables, ...retentionVariables]
    const { options } = readArguments(args, { known: { json: 'boolean' }, variables })
    const config = readConfig({})
    const { withRetention } = await import('./retention.ts')
    const { storageJson } = await import('../http/routes/storage-routes.ts')
    const found = await withRetention(config, (retention) => retention.storage())
    if (options.json === undefined) print(found, out)
    else out(JSON.stringify(storageJson(found), null, 2))
    return 0
  },
}

function print({ tables, policies }: Storage, out: Out): void {
  const rows = tables.map(({ table, rows, rowsAreEstimate, bytes, oldestAt }) => [
    ...[table, `${rowsAreEstimate ? '~' : ''}${rows}`, formatBytes(bytes)],
    oldestAt === null ? '-' : oldestAt.toISOString(),
  ])
  const all = [['TABLE', 'ROWS', 'SIZE', 'OLDEST'], ...rows]
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => (row[column] as string).length)))
  for (const [table = '', count = '', size = '', oldest = ''] of all) {
    const [first = 0, second = 0, third = 0] = widths
    out(`${table.padEnd(first)}  ${count.padStart(second)}  ${size.padStart(third)}  ${oldest}`)
  }
  out('')
  out(`finished events are kept for ${formatDuration(policies.keepFinishedMs)}`)
  for (const { type, keepMs } of policies.types) out(`  ${type}: ${describeKeep(keepMs)}`)
  out(`the audit is kept for ${formatDuration(policies.keepAuditMs)}, and ${describeArchive(policies)}`)
  out(`dead letters are kept for ${formatDuration(policies.keepDeadLettersMs)}`)
}

function describeKeep(keepMs: number): string {
  return keepMs === 0 ? 'deleted on success' : formatDuration(keepMs)
}

function describeArchive({ archiveDirectory }: Storage['policies']): string {
  return archiveDirectory === undefined ? 'not archived' : `archived in ${archiveDirectory}`
}

const units = ['B', 'KB', 'MB', 'GB', 'TB']

function formatBytes(bytes: number): string {
  const power = bytes === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`
}
