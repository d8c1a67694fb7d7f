/** What one look found. A warning is worth knowing; a failure is in the way. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly says: string
  /** What to do about it. */
  readonly fix?: string
}
