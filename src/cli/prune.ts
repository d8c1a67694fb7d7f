import { databaseVariables, readConfig, retentionVariables } from '../config.ts'
import type { Pruned, PruneOptions } from '../retention/retention.ts'
import { asTyped, readArguments } from './arguments.ts'
import { actor, alignColumns, type Command, type Out } from './command.ts'
import { parseDuration } from './duration.ts'

const help = `posthorn prune [--older-than <time>] [--dead-letters-older-than <time>] [--archive <directory>] [--dry-run]

Removes old data now, without pauses, in small steps, and prints how many rows went. A server with the role upkeep does the
same by itself, little by little, and may be running meanwhile.

  --older-than <time>               removes events that finished before that, and their audit, which is kept for a day at least
                                    (POSTHORN_KEEP_FINISHED_MS, POSTHORN_KEEP_AUDIT_MS); a type's own keepMs goes before it
  --dead-letters-older-than <time>  removes dead letters, except those that a lane waits for (POSTHORN_KEEP_DEAD_LETTERS_MS)
  --archive <directory>             writes the audit there before it is removed (POSTHORN_ARCHIVE_DIR)
  --dry-run                         counts what would be removed; changes nothing

A time is a number with s, m, h or d: 7d, 36h.
Environment: DATABASE_URL or POSTHORN_DATA_DIR, and POSTHORN_SCHEMA, as for posthorn serve, and the variables above.

  posthorn prune --older-than 3d --archive ./audit`

const known = {
  'older-than': 'string',
  'dead-letters-older-than': 'string',
  archive: 'string',
  'dry-run': 'boolean',
} as const

const typedNames: Readonly<Record<string, string>> = {
  olderThanMs: '--older-than',
  deadLettersOlderThanMs: '--dead-letters-older-than',
}

export const prune: Command = {
  help,
  async run(args, out) {
    const { options } = readArguments(args, {
      known,
      variables: [...databaseVariables, ...retentionVariables],
    })
    const request = requestOf(options)
    const config = readConfig({})
    const { withRetention } = await import('./with-database.ts')
    const pruned = await withRetention(config, (retention) => retention.prune(request)).catch(
      (error: unknown) => {
        throw asTyped(error, typedNames)
      },
    )
    print(pruned, out)
    return 0
  },
}

function requestOf(options: Readonly<Record<string, string | undefined>>): PruneOptions {
  const { 'older-than': older, 'dead-letters-older-than': letters, archive, 'dry-run': dryRun } = options
  return {
    ...(older !== undefined && { olderThanMs: parseDuration('--older-than', older) }),
    ...(letters !== undefined && {
      deadLettersOlderThanMs: parseDuration('--dead-letters-older-than', letters),
    }),
    ...(archive !== undefined && { archiveDirectory: archive }),
    dryRun: dryRun !== undefined,
    by: actor(),
  }
}

function print({ removed, auditedEvents }: Pruned, out: Out): void {
  const rows = Object.entries(removed).map(([table, count]) => [table, String(count)])
  if (auditedEvents !== undefined) {
    rows.push([
      'audit',
      `of these events, and of ${auditedEvents} that are gone already, once it is old enough`,
    ])
  }
  for (const line of alignColumns(rows)) out(line)
  if (auditedEvents !== undefined) out('Nothing was changed.')
}
