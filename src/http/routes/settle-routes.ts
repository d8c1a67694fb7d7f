import { z } from 'zod'
import { parseLeaseToken } from '../../domain/lease-token.ts'
import { toReason } from '../../domain/text.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub, LeaseClaim, Reply, Report, SettlementRecord } from '../../hub.ts'
import { given } from '../given.ts'
import { toProblem } from '../problem.ts'
import { readStorable } from '../read-request.ts'
import { type Answer, defineRoute, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import * as schemas from '../schemas.ts'

const params = z.object({ id: schemas.eventId })
const leaseErrors = ['LEASE_LOST', 'AMBIGUOUS_LEASE'] as const
const logEntry = { 200: { description: 'The log entry.', schema: schemas.logEntry } }

/** What a worker reports on the deliveries that it has leased. */
export function settleRoutes(hub: Hub): Route[] {
  return [
    defineRoute('POST /events/{id}/start', 'startEvent', 'consume', {
      params,
      summary: 'Report that an attempt has begun',
      body: { kind: 'json', schema: schemas.claimBody },
      responses: logEntry,
      errors: leaseErrors,
      handle: async ({ params, body }) => {
        const { id, workerId, startedAt } = await hub.pull.begin(claimOf(params.id, body))
        return {
          status: 200,
          json: { id, event_id: params.id, worker_id: workerId, action: 'STARTED', created_at: startedAt },
        }
      },
    }),
    defineRoute('POST /events/{id}/heartbeat', 'heartbeat', 'consume', {
      params,
      summary: 'Renew a lease',
      description:
        'Renews everything that was leased with the same token, and never shortens a lease. If the answer has `held: true`, release what has not begun.',
      body: { kind: 'json', schema: schemas.heartbeatBody },
      responses: { 200: { description: 'The renewed lease.', schema: schemas.lease } },
      errors: [...leaseErrors, 'LEASE_BUSY'],
      handle: async ({ params, body: { lease: seconds, begun = null, ...claim } }) => {
        const renewal = { leaseMs: seconds === undefined ? null : seconds * 1000, begun }
        const renewed = await hub.pull.renew(claimOf(params.id, claim), renewal)
        const json = {
          event_id: params.id,
          worker_id: renewed.workerId,
          lease_token: renewed.token,
          lease_expires_at: renewed.leasedUntil,
          cancelled: renewed.cancelled.includes(params.id),
          cancelled_event_ids: renewed.cancelled,
          held: renewed.isHeld,
        }
        return { status: 200, json }
      },
    }),
    defineRoute('POST /events/{id}/release', 'releaseEvent', 'consume', {
      params,
      summary: 'Hand an event back without counting a failure',
      body: { kind: 'json', schema: schemas.claimBody },
      responses: logEntry,
      errors: leaseErrors,
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, { kind: 'released' })),
    }),
    defineRoute('POST /events/{id}/complete', 'completeEvent', 'consume', {
      params,
      summary: 'Report that an attempt has succeeded',
      description: 'The call may be repeated: a repeat gets the first answer.',
      body: {
        kind: 'json',
        schema: schemas.completeBody,
        example: { worker_id: 'worker-02:8742', execution_time_ms: 1250, status_code: 200 },
      },
      responses: logEntry,
      errors: leaseErrors,
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, { kind: 'succeeded' })),
    }),
    defineRoute('POST /events/{id}/fail', 'failEvent', 'consume', {
      params,
      summary: 'Report that an attempt has failed',
      description:
        'The delivery is retried later. If this was the last failure allowed, the delivery is buried and the answer is 400. The call may be repeated.',
      body: {
        kind: 'json',
        schema: schemas.failBody,
        example: {
          worker_id: 'worker-02:8742',
          execution_time_ms: 5000,
          status_code: 500,
          error_message: 'Connection timeout',
        },
      },
      responses: {
        200: {
          description: 'The log entry, and when the next attempt may begin.',
          schema: schemas.failEntry,
        },
      },
      errors: [...leaseErrors, 'MAX_RETRIES_EXCEEDED'],
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, failureOf(body))),
    }),
    defineRoute('POST /events/settle', 'settleEvents', 'consume', {
      summary: 'Report up to 1,000 attempts at once',
      description: 'Each report is answered by itself, as if it had come alone.',
      body: {
        kind: 'json',
        schema: schemas.settleBody,
        bytesMax: 16 * 1_048_576,
        example: {
          outcomes: [{ event_id: 1001, lease_token: 'r1-2s-0', outcome: 'complete', execution_time_ms: 12 }],
        },
      },
      responses: {
        200: { description: 'One result for each report, in order.', schema: schemas.settleResults },
      },
      handle: ({ body, request }) => settleMany(hub, body, request.id),
    }),
  ]
}

type ClaimBody = z.output<typeof schemas.claimBody>

/** A token says which lease is meant; without a token, the lease that the worker holds on the event. */
function claimOf(eventId: number, { worker_id: workerId, lease_token: token }: ClaimBody): LeaseClaim {
  if (token !== undefined) return { eventId, token: parseLeaseToken(token) }
  if (workerId !== undefined) return { eventId, workerId: readStorable('worker_id', workerId) }
  throw badField('worker_id', 'given without a lease_token', undefined)
}

function reportOf(
  eventId: number,
  body: z.output<typeof schemas.completeBody>,
  outcome: Report['outcome'],
): Report {
  return {
    claim: claimOf(eventId, body),
    outcome,
    startedAfterMs: body.started_after_ms ?? null,
    executionMs: body.execution_time_ms ?? null,
    statusCode: body.status_code ?? null,
  }
}

type FailureBody = Pick<Outcome, 'error_message' | 'permanent' | 'retry_after_ms'>

function failureOf(body: FailureBody): Report['outcome'] {
  const { error_message: message = '', permanent, retry_after_ms: retryAfterMs } = body
  return { kind: 'failed', reason: toReason(message), ...given({ permanent, retryAfterMs }) }
}

async function settleOne(hub: Hub, report: Report): Promise<Answer> {
  const [reply] = await hub.pull.settle([report], { records: 'all' })
  return { status: 200, json: resultOf(report, reply as Reply) }
}

type SettleBody = z.output<typeof schemas.settleBody>
type Outcome = SettleBody['outcomes'][number]

async function settleMany(hub: Hub, body: SettleBody, requestId: string): Promise<Answer> {
  const reports = body.outcomes.map((one) => {
    const isAnonymous = one.worker_id === undefined && one.lease_token === undefined
    const said = isAnonymous ? { ...one, worker_id: body.worker_id } : one
    return orError(() => reportOf(one.event_id, said, outcomeOf(one)))
  })
  const good = reports.filter((report): report is Report => !(report instanceof PosthornError))
  const replies = good.length === 0 ? [] : await hub.pull.settle(good, { records: 'failures' })
  let next = 0
  const results = body.outcomes.map(({ event_id, outcome }, place) => {
    const report = reports[place] as Report | PosthornError
    const result =
      report instanceof PosthornError ? report : orError(() => resultOf(report, replies[next++] as Reply))
    if (result instanceof PosthornError) {
      const { instance, ...problem } = toProblem(result, requestId)
      return { event_id, ...problem }
    }
    // The first answer to a completion has no record, which saves a statement; a repeat gets the same answer.
    return outcome === 'complete' ? { event_id, status: 200 } : { event_id, ...result, status: 200 }
  })
  return { status: 200, json: { results } }
}

function orError<T>(work: () => T): T | PosthornError {
  try {
    return work()
  } catch (error) {
    if (error instanceof PosthornError) return error
    throw error
  }
}

function outcomeOf(one: Outcome): Report['outcome'] {
  switch (one.outcome) {
    case 'complete':
      return { kind: 'succeeded' }
    case 'fail':
      return failureOf(one)
    case 'snooze':
      return { kind: 'snoozed', afterMs: one.after_ms ?? 0 }
    case 'bury':
      return { kind: 'buried', reason: toReason(one.reason ?? one.error_message ?? '') }
    case 'release':
      return { kind: 'released' }
  }
}

const actions: Record<SettlementRecord['settlement'], string> = {
  completed: 'COMPLETED',
  retried: 'FAILED',
  buried: 'FAILED',
  snoozed: 'SNOOZED',
  released: 'RELEASED',
  cancelled: 'CANCELLED',
}

/** The log entry of an attempt. The entry of a failure says what comes next; the last failure allowed is an error. */
function resultOf({ outcome }: Report, reply: Reply): object {
  if ('error' in reply) throw reply.error
  const { record } = reply
  if (record === null) return {}
  const { eventId, settlement, failures, nextAt, finishedAt, statusCode, executionMs, reason } = record
  const { maxRetries } = reply
  if (outcome.kind === 'failed' && outcome.permanent !== true && settlement === 'buried') {
    throw new PosthornError('MAX_RETRIES_EXCEEDED', { eventId, retryCount: failures, maxRetries })
  }
  return {
    id: record.id,
    event_id: eventId,
    worker_id: record.workerId,
    action: actions[settlement],
    ...(statusCode !== null && { status_code: statusCode }),
    ...(reason !== null && reason !== '' && { error_message: reason }),
    ...(executionMs !== null && { execution_time_ms: executionMs }),
    ...(outcome.kind === 'failed' && {
      retry_scheduled: nextAt !== null,
      next_retry_at: nextAt,
      retry_count: failures,
      max_retries: maxRetries,
    }),
    created_at: finishedAt,
  }
}
