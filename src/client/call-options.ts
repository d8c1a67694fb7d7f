import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import type { EventStatus } from '../domain/status.ts'
import { integer } from '../domain/subscription.ts'
import { toDetail } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'

export interface CallOptions {
  readonly signal?: AbortSignal
}

/** The options of every call. Everything else is part of the request, which the server checks. */
export function checkCall(options: CallOptions, whose: string): CallOptions {
  checkOptions(options, { signal: true }, whose)
  return options
}

export interface PublishOptions extends CallOptions {
  /** Default: a random key, so that the client can repeat the publish. */
  readonly idempotencyKey?: string
}

export interface SubscribeOptions extends CallOptions {
  readonly workerId: string
  /** Only events with any of these tags. A named subscription needs none. */
  readonly tags?: string | readonly string[]
  /** The name of a pull subscription. Default: the work queue, which is asked by tags. */
  readonly subscription?: string
  /** The most events to lease, 1 to 1,000. Default 1. */
  readonly limit?: number
  /** How long to wait for the first event, up to 60. Default 0. */
  readonly waitSeconds?: number
  readonly leaseSeconds?: number
}

/** Names a lease; every leased event does. The token decides; without one, the worker's id. */
export interface Lease {
  readonly id: number
  readonly leaseToken?: string
  readonly workerId?: string
}

/** An id becomes part of a path: `1/../2` would lead to another event. */
export function checkEventId(id: unknown, option = 'id'): number {
  return integer(option, id, 1, Number.MAX_SAFE_INTEGER)
}

/** The same for ids that are text. Encoding does not change dots, and URLs take `..` for a step up. */
export function encodeId(id: unknown): string {
  if (typeof id === 'string' && !/^\.{0,2}$/.test(id)) return encodeURIComponent(id)
  throw new PosthornError('BAD_OPTION', { option: 'id', expected: 'an id', value: toDetail(id) })
}

export function checkLease(lease: Lease, option = 'lease'): Lease {
  if (typeof lease !== 'object' || lease === null) {
    throw new PosthornError('BAD_OPTION', { option, expected: 'a leased event', value: toDetail(lease) })
  }
  checkEventId(lease.id, `${option}.id`)
  return lease
}

export function checkOutcomes(outcomes: unknown): void {
  if (!Array.isArray(outcomes)) {
    const value = toDetail(outcomes)
    throw new PosthornError('BAD_OPTION', { option: 'outcomes', expected: 'a list of outcomes', value })
  }
  for (const [place, outcome] of outcomes.entries()) checkLease(outcome?.lease, `outcomes[${place}].lease`)
}

/** By the worker's clock. */
export interface Report extends CallOptions {
  readonly executionTimeMs?: number
  readonly startedAfterMs?: number
  readonly statusCode?: number
}

export interface FailureReport extends Report {
  readonly errorMessage?: string
  /** True: another attempt would fail as well, so the event becomes a dead letter. */
  readonly permanent?: boolean
  readonly retryAfterMs?: number
}

export type Outcome = { readonly lease: Lease } & (
  | ({ readonly outcome: 'complete' } & Omit<Report, 'signal'>)
  | ({ readonly outcome: 'fail' } & Omit<FailureReport, 'signal'>)
  | ({ readonly outcome: 'snooze'; readonly afterMs: number } & Omit<Report, 'signal'>)
  | ({ readonly outcome: 'bury'; readonly reason: string } & Omit<Report, 'signal'>)
  | { readonly outcome: 'release' }
)

export interface EventQuery extends CallOptions {
  readonly status?: EventStatus
  /** Any of these. */
  readonly tags?: string | readonly string[]
  /** A type, or `prefix.*`. */
  readonly type?: string
  readonly orderingKey?: string
  readonly createdFrom?: Date | string
  readonly createdTo?: Date | string
  readonly order?: 'asc' | 'desc'
  readonly limit?: number
  readonly offset?: number
  readonly cursor?: string
  /** Path within the payload → value, such as `{ 'order.id': 7 }`. */
  readonly payload?: Readonly<Record<string, string | number | boolean>>
}

export interface CancelFilter extends CallOptions {
  readonly ids?: readonly number[]
  readonly type?: string
  readonly tags?: string | readonly string[]
  readonly orderingKey?: string
  readonly status?: EventStatus
  readonly createdFrom?: Date | string
  readonly createdTo?: Date | string
  /** The `nextCursor` of the previous call with the same filter. */
  readonly cursor?: string
  readonly reason?: string
}

const reportNames: NamesOf<Report> = {
  executionTimeMs: true,
  startedAfterMs: true,
  statusCode: true,
  signal: true,
}

const subscribeNames: NamesOf<SubscribeOptions> = {
  workerId: true,
  tags: true,
  subscription: true,
  limit: true,
  waitSeconds: true,
  leaseSeconds: true,
  signal: true,
}

const failNames: NamesOf<FailureReport> = {
  ...reportNames,
  errorMessage: true,
  permanent: true,
  retryAfterMs: true,
}

const queryNames: NamesOf<EventQuery> = {
  status: true,
  tags: true,
  type: true,
  orderingKey: true,
  createdFrom: true,
  createdTo: true,
  order: true,
  limit: true,
  offset: true,
  cursor: true,
  payload: true,
  signal: true,
}

const cancelNames: NamesOf<CancelFilter> = {
  ids: true,
  type: true,
  tags: true,
  orderingKey: true,
  status: true,
  createdFrom: true,
  createdTo: true,
  cursor: true,
  reason: true,
  signal: true,
}

/** The options of each call that has more of them than a signal. */
export const callNames = {
  subscribe: subscribeNames,
  complete: reportNames,
  fail: failNames,
  listEvents: queryNames,
  cancelMany: cancelNames,
}
