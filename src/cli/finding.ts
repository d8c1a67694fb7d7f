/** The result of one check. A warning is worth knowing; a failure must be fixed before posthorn can serve. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly says: string
  /** What to do about it. */
  readonly fix?: string
}

export function fine(check: string, says: string): Finding {
  return { check, state: 'ok', says }
}

export function doubtful(check: string, says: string, fix: string): Finding {
  return { check, state: 'warn', says, fix }
}

export function failed(check: string, says: string, fix: string): Finding {
  return { check, state: 'fail', says, fix }
}
