/** How long what is done with is kept, and where the audit is written to before it goes. */
export interface RetentionConfig {
  readonly keepFinishedMs: number
  readonly keepAuditMs: number
  readonly keepDeadLettersMs: number
  readonly archiveDirectory: string | undefined
}

/** How long the admin log, finished replays, checkpoints, recoveries and the numbering of idle lanes are kept. */
export const keepRecordsMs = days(90)
/** A repeated publish gets its first answer for a day at least. */
export const keepIdempotencyKeysMs = 25 * 60 * 60 * 1000
/** Workers that repeat a settlement get its first answer for this long: the audit record holds it. */
export const keepAuditMsMin = days(1)
export const keepMsMax = days(3650)

function days(count: number): number {
  return count * 24 * 60 * 60 * 1000
}
