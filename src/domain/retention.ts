import type { NamesOf } from './known-names.ts'
import { type Environment, settingOf, wholeSetting } from './setting.ts'

/** How long what is done with is kept, and where its audit goes. */
export interface RetentionOptions {
  /** How long finished events are kept, unless their type says (POSTHORN_KEEP_FINISHED_MS). Default 7 days. */
  readonly keepFinishedMs?: number
  /** How long the audit is kept, and never less than its event (POSTHORN_KEEP_AUDIT_MS). Default 7 days, at least 1. */
  readonly keepAuditMs?: number
  /** How long dead letters are kept (POSTHORN_KEEP_DEAD_LETTERS_MS). Default 90 days. */
  readonly keepDeadLettersMs?: number
  /** Where the audit is written to before it goes (POSTHORN_ARCHIVE_DIR). Default nowhere. */
  readonly archiveDirectory?: string
}

export interface RetentionConfig {
  readonly keepFinishedMs: number
  readonly keepAuditMs: number
  readonly keepDeadLettersMs: number
  readonly archiveDirectory: string | undefined
}

/** What the admin log, finished replays and the numbering of idle lanes are kept for. */
export const keepRecordsMs = days(90)
/** The answer to the last settlement is given again for so long. */
export const keepAuditMsMin = days(1)
export const keepMsMax = days(3650)

export const retentionOptions: NamesOf<RetentionOptions> = {
  keepFinishedMs: true,
  keepAuditMs: true,
  keepDeadLettersMs: true,
  archiveDirectory: true,
}

export const retentionVariables: readonly string[] = [
  'POSTHORN_KEEP_FINISHED_MS',
  'POSTHORN_KEEP_AUDIT_MS',
  'POSTHORN_KEEP_DEAD_LETTERS_MS',
  'POSTHORN_ARCHIVE_DIR',
]

/** `text` checks what is a path. */
export function readRetention(
  options: RetentionOptions,
  env: Environment,
  text: (option: string, value: unknown) => string,
): RetentionConfig {
  const ms = (option: keyof RetentionOptions, variable: string, min: number, usual: number) =>
    wholeSetting(settingOf(option, options[option], variable, env), { usual, min, max: keepMsMax })
  const { name, value } = settingOf('archiveDirectory', options.archiveDirectory, 'POSTHORN_ARCHIVE_DIR', env)
  return {
    keepFinishedMs: ms('keepFinishedMs', 'POSTHORN_KEEP_FINISHED_MS', 0, days(7)),
    keepAuditMs: ms('keepAuditMs', 'POSTHORN_KEEP_AUDIT_MS', keepAuditMsMin, days(7)),
    keepDeadLettersMs: ms('keepDeadLettersMs', 'POSTHORN_KEEP_DEAD_LETTERS_MS', 0, days(90)),
    archiveDirectory: value === undefined ? undefined : text(name, value),
  }
}

function days(count: number): number {
  return count * 24 * 60 * 60 * 1000
}
