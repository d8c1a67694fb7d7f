/** How long finished data is kept, and where the audit is archived before it is deleted. */
export interface RetentionConfig {
  readonly keepFinishedMs: number
  readonly keepAuditMs: number
  readonly keepDeadLettersMs: number
  readonly archiveDirectory: string | undefined
}

/** How long the admin log, finished replays, checkpoints, recoveries and the numbering of idle lanes are kept. */
export const keepRecordsMs = days(90)
/** For at least a day, a repeated publish gets its first answer. */
export const keepIdempotencyKeysMs = 25 * 60 * 60 * 1000
/** For at least this long, a worker that repeats a settlement gets its first answer, which is in the audit. */
export const keepAuditMsMin = days(1)
export const keepMsMax = days(3650)

function days(count: number): number {
  return count * 24 * 60 * 60 * 1000
}
