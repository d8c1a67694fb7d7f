import type { LeasedRun } from '../domain/delivery.ts'
import { type EventRow, eventFromRow } from './event-row.ts'
import { type SettleRequest, settleRequest } from './settle.ts'

/** One row per delivery. */
export type LeaseRow = [
  runId: number,
  place: number,
  run: LeasedRunRow | null,
  leasedUntilMs: number | null,
  ...event: EventRow,
  /** The key of its lane, if that is not the ordering key of the event. */
  otherKey: string | null,
]

type LeasedRunRow = [
  subscription: number,
  attempts: number,
  failures: number,
  lane: number,
  suspect: number,
  /** Counted from the end of the lease; may be negative. Of the run: a redriven event has outlived its own expiry. */
  expiresAfterMs: number | null,
]

/** The deliveries that came without their payload: they must be handed back. */
export function withheldFrom(rows: readonly LeaseRow[], token: number): SettleRequest[] {
  return rows.filter(isWithheld).map(([runId, place, run, , eventId]) => {
    const failures = place === 1 && run !== null ? run[2] : 0
    return settleRequest({ runId, token, eventId, failures }, { kind: 'release' })
  })
}

export function isWithheld([, , , , , , payload]: LeaseRow): boolean {
  return payload === null
}

/** Rows come in any order: `place` is the place of a delivery in its run. */
export function runsFromRows(rows: readonly LeaseRow[], token: number): LeasedRun[] {
  const runs = new Map<number, LeasedRun>()
  const heads = new Map<number, { attempts: number; failures: number }>()
  for (const row of rows) {
    const [id, , run, leasedUntilMs] = row
    if (run === null || leasedUntilMs === null) continue
    const [subscription, attempts, failures, lane, suspect, expiresAfterMs] = run
    runs.set(id, {
      id,
      subscription,
      token,
      laneKey: lane === 1 ? (row[10] ?? row[7]) : null,
      suspect: suspect === 1,
      leasedUntil: new Date(leasedUntilMs),
      expiresAtMs: expiresAfterMs === null ? null : leasedUntilMs + expiresAfterMs,
      deliveries: [],
    })
    // Only the head of a run can have been tried before.
    heads.set(id, { attempts, failures })
  }
  for (const row of rows) {
    const [id, place] = row
    const run = runs.get(id) as LeasedRun
    const head = place === 1 ? heads.get(id) : undefined
    run.deliveries[place - 1] = {
      run,
      event: eventFromRow(row, 4),
      attempt: (head?.attempts ?? 0) + 1,
      failures: head?.failures ?? 0,
    }
  }
  return [...runs.values()]
}
