import { databaseVariables, readConfig, retentionVariables } from '../config.ts'
import type { Pruned, PruneOptions } from '../retention/retention.ts'
import { actor } from './actor.ts'
import { asTyped, readArguments } from './arguments.ts'
import type { Command, Out } from './command.ts'
import { parseDuration } from './duration.ts'

const help = `posthorn prune [--older-than <time>] [--dead-letters-older-than <time>] [--archive <directory>] [--dry-run]

Removes what need not be kept any longer, now and without pauses, in small steps; says what went. A server with the role
upkeep does the same by itself, little by little, and may be running meanwhile.

  --older-than <time>               events that are finished since then, and their audit, which is kept for a day at least
                                    (POSTHORN_KEEP_FINISHED_MS, POSTHORN_KEEP_AUDIT_MS); types that say so keep their own
  --dead-letters-older-than <time>  dead letters, but for those that a lane waits for (POSTHORN_KEEP_DEAD_LETTERS_MS)
  --archive <directory>             where the audit is written to before it goes (POSTHORN_ARCHIVE_DIR)
  --dry-run                         counts what would go; changes nothing

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
    const { withRetention } = await import('./retention.ts')
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
  const width = Math.max(...Object.keys(removed).map((table) => table.length))
  for (const [table, rows] of Object.entries(removed)) out(`${table.padEnd(width)}  ${rows}`)
  if (auditedEvents === undefined) return
  out(
    `${'audit'.padEnd(width)}  of these events, and of ${auditedEvents} that are gone already, as it comes of age`,
  )
  out('Nothing was changed.')
}
