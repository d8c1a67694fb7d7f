import { expect } from 'vitest'
import type { LeasedRun } from '../../src/domain/delivery.ts'
import type { Posthorn } from '../../src/posthorn.ts'
import type { PullRequest } from '../../src/pull/pull.ts'
import type { Report } from '../../src/pull/pull-settler.ts'

/** Leases as a remote worker does. */
export async function leaseRuns(
  hub: Posthorn,
  subscription: string,
  request: Partial<PullRequest> = {},
): Promise<readonly LeasedRun[]> {
  const { runs } = await hub.pull.lease({
    ...{ subscription, limit: 1, tags: null, workerId: 'w', leaseMs: null, waitMs: 0 },
    ...{ begins: 'granted', suspects: true, signal: new AbortController().signal },
    ...request,
  })
  return runs
}

/** Settles all that was leased in the same way. */
export async function settleRuns(
  hub: Posthorn,
  runs: readonly LeasedRun[],
  outcome: Report['outcome'],
): Promise<void> {
  const reports = runs.flatMap(({ id: runId, token, subscription, laneKey, deliveries }) =>
    deliveries.map(
      ({ event }): Report => ({
        claim: { eventId: event.id, token: { runId, token, subscription, lane: laneKey !== null } },
        outcome,
        ...{ startedAfterMs: null, executionMs: 50, statusCode: null },
      }),
    ),
  )
  const replies = await hub.pull.settle(reports, { records: 'all' })
  expect(replies.filter((reply) => 'error' in reply)).toEqual([])
}
