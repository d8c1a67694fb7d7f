import type { StatusRules } from '../../domain/endpoint.ts'
import { type Outcome, retryAfterMsMax } from '../../domain/settlement.ts'

/** Why there was no response. With the first five the endpoint could not be reached at all. */
export const errorClasses = [
  'dns',
  'refused',
  'reset',
  'tls',
  'connect_timeout',
  'timeout',
  'protocol',
  'blocked',
  'ours',
] as const
export type ErrorClass = (typeof errorClasses)[number]

const unreachable: readonly ErrorClass[] = ['dns', 'refused', 'reset', 'tls', 'connect_timeout']

/** The result of a request. */
export type Result =
  | { readonly kind: 'answered'; readonly status: number; readonly retryAfterMs: number | null }
  | { readonly kind: 'failed'; readonly errorClass: ErrorClass; readonly message: string }

export interface Decision {
  readonly outcome: Outcome
  /** Whether the endpoint can be reached, is gone for good, or neither is known. */
  readonly endpoint: 'reached' | 'unreachable' | 'gone' | 'unknown'
}

/** Decides whether a delivery succeeded, is retried or buried, and whether the failure counts against it. */
export function decide(result: Result, rules: StatusRules = {}): Decision {
  if (result.kind === 'failed') return decideFailure(result)
  const { status, retryAfterMs } = result
  const reason = `The endpoint answered ${status}`
  // Only a rule for 410 itself gives it another meaning, not a rule for 4xx. The subscriber is paused, and the delivery waits
  // until somebody resumes it.
  if (status === 410 && rules['410'] === undefined) {
    return { outcome: { kind: 'failed', reason, uncounted: true }, endpoint: 'gone' }
  }
  const rule = rules[String(status)] ?? rules[`${Math.floor(status / 100)}xx`] ?? ruleFor(status)
  if (rule === 'deliver') return { outcome: { kind: 'succeeded' }, endpoint: 'reached' }
  if (rule === 'bury') return { outcome: { kind: 'failed', reason, permanent: true }, endpoint: 'reached' }
  const retryAfter = retryAfterMs === null ? {} : { retryAfterMs }
  return { outcome: { kind: 'failed', reason, ...retryAfter }, endpoint: 'reached' }
}

function ruleFor(status: number): StatusRules[string] {
  if (status >= 200 && status < 300) return 'deliver'
  return status === 429 || status >= 500 ? 'retry' : 'bury'
}

function decideFailure({ errorClass, message }: Extract<Result, { kind: 'failed' }>): Decision {
  const reason = `${errorClass}: ${message}`
  if (unreachable.includes(errorClass)) {
    return { outcome: { kind: 'failed', reason, uncounted: true }, endpoint: 'unreachable' }
  }
  if (errorClass === 'blocked') {
    return { outcome: { kind: 'failed', reason, permanent: true }, endpoint: 'unknown' }
  }
  // A fault on our side does not count against the delivery.
  if (errorClass === 'ours')
    return { outcome: { kind: 'failed', reason, uncounted: true }, endpoint: 'unknown' }
  return { outcome: { kind: 'failed', reason }, endpoint: 'reached' }
}

/** Seconds, or a date, which is compared with the endpoint's own `Date`, since clocks differ. Null: it cannot be read. */
export function readRetryAfter(value: string | null, date: string | null, nowMs: number): number | null {
  if (value === null) return null
  const text = value.trim()
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : untilMs(text, date, nowMs)
  if (Number.isNaN(ms)) return null
  return Math.ceil(Math.min(Math.max(ms, 1000), retryAfterMsMax))
}

function untilMs(text: string, date: string | null, nowMs: number): number {
  const theirs = date === null ? Number.NaN : httpDateMs(date.trim())
  return httpDateMs(text) - (Number.isNaN(theirs) ? nowMs : theirs)
}

/**
 * The three forms of RFC 9110; the oldest names no zone. Other texts are refused: `Date.parse` reads almost any number as a year,
 * and a time without a zone as local time.
 */
function httpDateMs(text: string): number {
  const form = /^[A-Za-z]{3,9},? [A-Za-z0-9 -]{6,11} \d\d:\d\d:\d\d(?: \d{4})?( GMT| UTC| [+-]\d{4})?$/.exec(
    text,
  )
  if (form === null) return Number.NaN
  return Date.parse(form[1] === undefined ? `${text} GMT` : text)
}
