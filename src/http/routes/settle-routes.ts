import { z } from 'zod'
import { parseLeaseToken } from '../../domain/lease-token.ts'
import { toReason } from '../../domain/text.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub, LeaseClaim, Reply, Report, SettlementRecord } from '../../hub.ts'
import { toProblem } from '../problem.ts'
import { readStorable } from '../read-request.ts'
import { type Answer, defineRoute, type Route } from '../route.ts'
import * as schemas from '../schemas.ts'

const params = z.object({ id: schemas.eventId })
const leaseErrors = ['NOT_FOUND', 'LEASE_LOST', 'AMBIGUOUS_LEASE', 'BAD_FIELD', 'BAD_JSON'] as const

/** What a worker says of what it has leased. */
export function settleRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/start', name: 'startEvent', scope: 'consume', params },
      summary: 'Say that an attempt has begun',
      body: { kind: 'json', schema: schemas.claimBody },
      responses: { 200: { description: 'The log entry.', schema: schemas.logEntry } },
      errors: leaseErrors,
      handle: async ({ params, body }) => {
        const { id, workerId, startedAt } = await hub.pull.begin(claimOf(params.id, body))
        const entry = {
          id,
          event_id: params.id,
          worker_id: workerId,
          action: 'STARTED',
          created_at: startedAt,
        }
        return { status: 200, json: entry }
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/heartbeat', name: 'heartbeat', scope: 'consume', params },
      summary: 'Keep a lease',
      description:
        'Renews everything that was leased with the same token. Never shortens a lease. With `held` hand back what has not begun.',
      body: { kind: 'json', schema: schemas.heartbeatBody },
      responses: { 200: { description: 'The new end.', schema: schemas.lease } },
      errors: [...leaseErrors, 'LEASE_BUSY'],
      handle: async ({ params, body }) => {
        const { lease: seconds, begun = null, ...claim } = body
        const renew = { leaseMs: seconds === undefined ? null : seconds * 1000, begun }
        const { leasedUntil, cancelled, isHeld, token, workerId } = await hub.pull.renew(
          claimOf(params.id, claim),
          renew,
        )
        return {
          status: 200,
          json: {
            ...{
              event_id: params.id,
              worker_id: workerId,
              lease_token: token,
              lease_expires_at: leasedUntil,
            },
            ...{ cancelled: cancelled.includes(params.id), cancelled_event_ids: cancelled, held: isHeld },
          },
        }
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/release', name: 'releaseEvent', scope: 'consume', params },
      summary: 'Hand an event back, uncounted',
      body: { kind: 'json', schema: schemas.claimBody },
      responses: { 200: { description: 'The log entry.', schema: schemas.logEntry } },
      errors: leaseErrors,
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, { kind: 'released' })),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/complete', name: 'completeEvent', scope: 'consume', params },
      summary: 'Say that an attempt has succeeded',
      description: 'May be repeated: the first answer is given again.',
      body: {
        ...{ kind: 'json', schema: schemas.completeBody },
        example: { worker_id: 'worker-02:8742', execution_time_ms: 1250, status_code: 200 },
      },
      responses: { 200: { description: 'The log entry.', schema: schemas.logEntry } },
      errors: leaseErrors,
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, { kind: 'succeeded' })),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/fail', name: 'failEvent', scope: 'consume', params },
      summary: 'Say that an attempt has failed',
      description:
        'It is tried again later, or buried when it was the last failure allowed: then the answer is 400. May be repeated.',
      body: {
        ...{ kind: 'json', schema: schemas.failBody },
        example: {
          worker_id: 'worker-02:8742',
          execution_time_ms: 5000,
          status_code: 500,
          error_message: 'Connection timeout',
        },
      },
      responses: {
        200: { description: 'The log entry, and when it is tried again.', schema: schemas.failEntry },
      },
      errors: [...leaseErrors, 'MAX_RETRIES_EXCEEDED'],
      handle: ({ params, body }) => settleOne(hub, reportOf(params.id, body, failureOf(body))),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/settle', name: 'settleEvents', scope: 'consume' },
      summary: 'Settle up to 1,000 attempts, each answered by itself',
      body: {
        ...{ kind: 'json', schema: schemas.settleBody, bytesMax: 16 * 1_048_576 },
        example: {
          outcomes: [{ event_id: 1001, lease_token: 'r1-2s-0', outcome: 'complete', execution_time_ms: 12 }],
        },
      },
      responses: { 200: { description: 'One result each, in order.', schema: schemas.settleResults } },
      errors: ['BAD_FIELD', 'BAD_JSON', 'BODY_TOO_LARGE'],
      handle: ({ body, request }) => settleMany(hub, body, request.id),
    }),
  ]
}

interface ClaimBody {
  readonly worker_id?: string | undefined
  readonly lease_token?: string | undefined
}

/** With a token the token decides; without one, who holds it. */
function claimOf(eventId: number, { worker_id: workerId, lease_token: token }: ClaimBody): LeaseClaim {
  if (token !== undefined) return { eventId, token: parseLeaseToken(token) }
  if (workerId !== undefined) return { eventId, workerId: readStorable('worker_id', workerId) }
  throw new PosthornError('BAD_FIELD', {
    field: 'worker_id',
    expected: 'given without a lease_token',
    value: 'nothing',
  })
}

interface ReportBody extends ClaimBody {
  readonly execution_time_ms?: number | undefined
  readonly started_after_ms?: number | undefined
  readonly status_code?: number | undefined
}

function reportOf(eventId: number, body: ReportBody, outcome: Report['outcome']): Report {
  return {
    claim: claimOf(eventId, body),
    outcome,
    startedAfterMs: body.started_after_ms ?? null,
    executionMs: body.execution_time_ms ?? null,
    statusCode: body.status_code ?? null,
  }
}

interface FailureBody {
  readonly error_message?: string | undefined
  readonly permanent?: boolean | undefined
  readonly retry_after_ms?: number | undefined
}

function failureOf({
  error_message: message,
  permanent,
  retry_after_ms: retryAfterMs,
}: FailureBody): Report['outcome'] {
  return {
    kind: 'failed',
    reason: toReason(message ?? ''),
    ...(permanent !== undefined && { permanent }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  }
}

async function settleOne(hub: Hub, report: Report): Promise<Answer> {
  const [reply] = await hub.pull.settle([report], { records: 'all' })
  return { status: 200, json: resultOf(report, reply as Reply) }
}

type Outcome = z.output<typeof schemas.settleBody>['outcomes'][number]

async function settleMany(
  hub: Hub,
  body: z.output<typeof schemas.settleBody>,
  requestId: string,
): Promise<Answer> {
  const reports = body.outcomes.map((one) => {
    const said =
      one.worker_id === undefined && one.lease_token === undefined
        ? { ...one, worker_id: body.worker_id }
        : one
    return attempt(() => reportOf(one.event_id, said, outcomeOf(one)))
  })
  const good = reports.filter((report): report is Report => !(report instanceof PosthornError))
  const replies = good.length === 0 ? [] : await hub.pull.settle(good, { records: 'failures' })
  let next = 0
  // The record of a completion is not read, to save a statement. A repeat reads it, and still gives the first answer.
  const results = reports.map((report, place) => {
    const event_id = (body.outcomes[place] as Outcome).event_id
    const result =
      report instanceof PosthornError ? report : attempt(() => resultOf(report, replies[next++] as Reply))
    if (!(result instanceof PosthornError)) {
      const said = (body.outcomes[place] as Outcome).outcome === 'complete' ? {} : result
      return { event_id, ...said, status: 200 }
    }
    const { instance, ...problem } = toProblem(result, requestId)
    return { event_id, ...problem }
  })
  return { status: 200, json: { results } }
}

function attempt<T>(work: () => T): T | PosthornError {
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
  ...{ completed: 'COMPLETED', retried: 'FAILED', buried: 'FAILED' },
  ...{ snoozed: 'SNOOZED', released: 'RELEASED', cancelled: 'CANCELLED' },
}

/** The log entry; a failure also says what comes next, and the last one allowed is an error in itself. */
function resultOf({ outcome }: Report, reply: Reply): object {
  if ('error' in reply) throw reply.error
  const { record } = reply
  if (record === null) return {}
  const { maxRetries } = reply
  if (outcome.kind === 'failed' && outcome.permanent !== true && record.settlement === 'buried') {
    throw new PosthornError('MAX_RETRIES_EXCEEDED', {
      eventId: record.eventId,
      retryCount: record.failures,
      maxRetries,
    })
  }
  const entry = {
    ...{
      id: record.id,
      event_id: record.eventId,
      worker_id: record.workerId,
      action: actions[record.settlement],
    },
    ...(record.statusCode !== null && { status_code: record.statusCode }),
    ...(record.reason !== null && record.reason !== '' && { error_message: record.reason }),
    ...(record.executionMs !== null && { execution_time_ms: record.executionMs }),
  }
  if (outcome.kind !== 'failed') return { ...entry, created_at: record.finishedAt }
  return {
    ...entry,
    retry_scheduled: record.nextAt !== null,
    next_retry_at: record.nextAt,
    ...{ retry_count: record.failures, max_retries: maxRetries, created_at: record.finishedAt },
  }
}
