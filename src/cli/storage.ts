import { databaseVariables, readConfig, retentionVariables } from '../config.ts'
import type { Storage } from '../retention/retention.ts'
import { readArguments } from './arguments.ts'
import { alignColumns, type Command, type Out } from './command.ts'
import { formatDuration } from './duration.ts'

const help = `posthorn storage [--json]

Shows each table with its rows, its size and its oldest row, the largest first, and how long things are kept. The rows of large
tables are not counted: a ~ marks an estimate by the last vacuum or analyze. Changes nothing.

  --json   prints what GET /storage answers

Environment: DATABASE_URL or POSTHORN_DATA_DIR, and POSTHORN_SCHEMA, as for posthorn serve, which may be running meanwhile.`

export const storage: Command = {
  help,
  async run(args, out) {
    const variables = [...databaseVariables, ...retentionVariables]
    const { options } = readArguments(args, { known: { json: 'boolean' }, variables })
    const config = readConfig({})
    const { withRetention } = await import('./with-database.ts')
    const { storageJson } = await import('../http/routes/storage-routes.ts')
    const found = await withRetention(config, (retention) => retention.storage())
    if (options.json === undefined) print(found, out)
    else out(JSON.stringify(storageJson(found), null, 2))
    return 0
  },
}

function print({ tables, policies }: Storage, out: Out): void {
  const rows = tables.map(({ table, rows, rowsAreEstimate, bytes, oldestAt }) => [
    table,
    `${rowsAreEstimate ? '~' : ''}${rows}`,
    formatBytes(bytes),
    oldestAt?.toISOString() ?? '-',
  ])
  for (const line of alignColumns([['TABLE', 'ROWS', 'SIZE', 'OLDEST'], ...rows], [1, 2])) out(line)
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
