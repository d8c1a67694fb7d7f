import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import { completeEachStatement, completeHeadsStatement, completeStatement } from './complete-statements.ts'

/** A whole run that succeeded, with times in the order of its deliveries. */
export interface CompleteRequest {
  readonly runId: number
  readonly token: number
  readonly startedAfterMs: readonly number[]
  readonly executionMs: readonly number[]
}

/**
 * Completes whole runs without ordering keys, the common case, at half the cost of settling their deliveries one by one: the run's
 * own row says what they are. Returns the positions of those that it completed; the others must be settled by `settle`.
 * Positions, not ids: a run may be given twice, by a lease that was lost and by the lease that followed.
 */
export async function complete(db: Database, requests: readonly CompleteRequest[]): Promise<number[]> {
  const values = [
    numberArray(requests.map((request) => request.runId)),
    numberArray(requests.map((request) => request.token)),
    requests.map((request) => numberArray(request.startedAfterMs)),
    requests.map((request) => numberArray(request.executionMs)),
    numberArray(requests.map((request) => request.executionMs.reduce((sum, ms) => sum + ms, 0))),
  ]
  const rows = await db.once<[position: number]>(completeStatement(db), values, plans)
  return rows.map(([position]) => position)
}

/** As in settle: by a partial index the planner might read all leases for each run. */
const plans = { indexPlans: true, hashJoins: true } as const

/** The head of a lane that succeeded. */
export interface CompleteHead {
  readonly runId: number
  readonly token: number
  readonly eventId: number
  /** As the lease returned them: they cannot change while its token is valid. */
  readonly attempt: number
  readonly failures: number
  readonly startedAfterMs: number
  readonly executionMs: number
}

/**
 * Completes heads of lanes, the other common case: the run continues without its head, or is deleted and leaves a note that its
 * lane is free. Returns the positions of those that it did not complete, which must be settled by `settle`.
 */
export async function completeHeads(db: Database, heads: readonly CompleteHead[]): Promise<number[]> {
  const values = [
    numberArray(heads.map((head) => head.runId)),
    numberArray(heads.map((head) => head.token)),
    numberArray(heads.map((head) => head.eventId)),
    numberArray(heads.map((head) => head.attempt)),
    numberArray(heads.map((head) => head.failures)),
    numberArray(heads.map((head) => head.startedAfterMs)),
    numberArray(heads.map((head) => head.executionMs)),
  ]
  const rows = await db.once<[position: number]>(completeHeadsStatement(db), values, plans)
  return rows.map(([position]) => position)
}

/** One delivery that a worker elsewhere has leased and reports as done. */
export interface CompleteEach {
  readonly runId: number
  readonly token: number
  readonly eventId: number
  readonly startedAfterMs: number | null
  readonly executionMs: number | null
  readonly statusCode: number | null
}

/** What the audit says of it. */
export interface CompletedEach {
  /** The id of the log entry. */
  readonly id: number
  readonly failures: number
  readonly workerId: string | null
  readonly finishedAt: Date
}

/**
 * Completes deliveries that are alone in their run and in no lane. Undefined: it was not completed, and must be settled by `settle`.
 */
export async function completeEach(
  db: Database,
  requests: readonly CompleteEach[],
): Promise<(CompletedEach | undefined)[]> {
  const values = [
    numberArray(requests.map(({ runId }) => runId)),
    numberArray(requests.map(({ token }) => token)),
    numberArray(requests.map(({ eventId }) => eventId)),
    numberArray(requests.map(({ startedAfterMs }) => startedAfterMs)),
    numberArray(requests.map(({ executionMs }) => executionMs)),
    numberArray(requests.map(({ statusCode }) => statusCode)),
  ]
  const completed: (CompletedEach | undefined)[] = requests.map(() => undefined)
  for (const row of await db.once<CompletedRow>(completeEachStatement(db), values, plans)) {
    const [position, id, failures, workerId, finishedAt] = row
    completed[position - 1] = { id, failures, workerId, finishedAt }
  }
  return completed
}

type CompletedRow = [
  position: number,
  id: number,
  failures: number,
  workerId: string | null,
  finishedAt: Date,
]
