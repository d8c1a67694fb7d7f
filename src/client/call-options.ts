import { badOption } from '../domain/bad-value.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import type { EventStatus } from '../domain/status.ts'
import { integer } from '../domain/subscription.ts'

export interface CallOptions {
  readonly signal?: AbortSignal
}

/** What a call takes besides is part of its request, which the server checks. */
export function checkCall(options: CallOptions, whose: string): CallOptions {
  checkOptions(options, { signal: true }, whose)
  return options
}

export interface PublishOptions extends CallOptions {
  /** A random one when none is given, so that a publish can be repeated. */
  readonly idempotencyKey?: string
}

export interface SubscribeOptions extends CallOptions {
  readonly workerId: string
  /** Work with any of these tags; for a named subscription whatever its tags when left out. */
  readonly tags?: string | readonly string[]
  /** The name of a pull subscription; left out: the queue of tagged work. */
  readonly subscription?: string
  /** How many events at most, 1 to 1,000. Default 1. */
  readonly limit?: number
  /** How long to wait for the first one, up to 60. Default 0. */
  readonly waitSeconds?: number
  readonly leaseSeconds?: number
}

/** What was leased: a leased event is one. With a token the token decides, else the worker's id. */
export interface Lease {
  readonly id: number
  readonly leaseToken?: string
  readonly workerId?: string
}

/** An id becomes part of a path: `1/../2` would lead to another event. */
export function checkEventId(id: unknown, option = 'id'): number {
  return integer(option, id, 1, Number.MAX_SAFE_INTEGER)
}

/** The same for ids that are text. Encoding leaves dots alone, and URLs read them as steps. */
export function encodeId(id: unknown): string {
  if (typeof id === 'string' && !/^\.{0,2}$/.test(id)) return encodeURIComponent(id)
  throw badOption('id', 'an id', id)
}

export function checkLease(lease: Lease, option = 'lease'): Lease {
  if (typeof lease !== 'object' || lease === null) throw badOption(option, 'a leased event', lease)
  checkEventId(lease.id, `${option}.id`)
  return lease
}

export function checkOutcomes(outcomes: unknown): void {
  if (!Array.isArray(outcomes)) throw badOption('outcomes', 'a list of outcomes', outcomes)
  for (const [place, outcome] of outcomes.entries()) checkLease(outcome?.lease, `outcomes[${place}].lease`)
}

/** By the worker's own watch. */
export interface Report extends CallOptions {
  readonly executionTimeMs?: number
  readonly startedAfterMs?: number
  readonly statusCode?: number
}

export interface FailureReport extends Report {
  readonly errorMessage?: string
  /** No later attempt can do better. */
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

/** The events that a call is about. */
export interface EventFilter extends CallOptions {
  readonly status?: EventStatus
  /** Any of these. */
  readonly tags?: string | readonly string[]
  /** A type, or `prefix.*`. */
  readonly type?: string
  readonly orderingKey?: string
  readonly createdFrom?: Date | string
  readonly createdTo?: Date | string
  /** `nextCursor` of the call before, with the same filter. */
  readonly cursor?: string
}

export interface EventQuery extends EventFilter {
  readonly order?: 'asc' | 'desc'
  readonly limit?: number
  readonly offset?: number
  /** Path within the payload → value, such as `{ 'order.id': 7 }`. */
  readonly payload?: Readonly<Record<string, string | number | boolean>>
}

export interface CancelFilter extends EventFilter {
  readonly ids?: readonly number[]
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

const filterNames: NamesOf<EventFilter> = {
  status: true,
  tags: true,
  type: true,
  orderingKey: true,
  createdFrom: true,
  createdTo: true,
  cursor: true,
  signal: true,
}
const queryNames: NamesOf<EventQuery> = {
  ...filterNames,
  order: true,
  limit: true,
  offset: true,
  payload: true,
}
const cancelNames: NamesOf<CancelFilter> = { ...filterNames, ids: true, reason: true }

/** The options of each call that has more of them than a signal. */
export const callNames = {
  subscribe: subscribeNames,
  complete: reportNames,
  fail: failNames,
  listEvents: queryNames,
  cancelMany: cancelNames,
}
