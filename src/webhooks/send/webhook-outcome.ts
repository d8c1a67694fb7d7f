import type { StatusRules } from '../../domain/endpoint.ts'
import { type Outcome, retryAfterMsMax } from '../../domain/settlement.ts'

/** Why no answer came. The first five: the endpoint could not be reached at all. */
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

/** What came of a request. */
export type Result =
  | { readonly kind: 'answered'; readonly status: number; readonly retryAfterMs: number | null }
  | { readonly kind: 'failed'; readonly errorClass: ErrorClass; readonly message: string }

export interface Decision {
  readonly outcome: Outcome
  /** What it says of the endpoint: it can be reached, it cannot, it is gone for good, or nothing. */
  readonly endpoint: 'reached' | 'unreachable' | 'gone' | 'unknown'
}

/** The matrix: what is delivered, what is tried again, what is a dead letter, and what is not the delivery's fault. */
export function decide(result: Result, rules: StatusRules = {}): Decision {
  if (result.kind === 'failed') return decideFailure(result)
  const { status, retryAfterMs } = result
  const reason = `The endpoint answered ${status}`
  // Gone is gone: only a rule for this very number means something else, none for its class. The subscriber is paused,
  // so the delivery waits until somebody resumes it.
  if (status === 410 && rules['410'] === undefined) {
    return { outcome: { kind: 'failed', reason, uncounted: true }, endpoint: 'gone' }
  }
  const rule = rules[String(status)] ?? rules[`${Math.floor(status / 100)}xx`] ?? ruleFor(status)
  if (rule === 'deliver') return { outcome: { kind: 'succeeded' }, endpoint: 'reached' }
  if (rule === 'bury') return { outcome: { kind: 'failed', reason, permanent: true }, endpoint: 'reached' }
  const patience = retryAfterMs === null ? {} : { retryAfterMs }
  return { outcome: { kind: 'failed', reason, ...patience }, endpoint: 'reached' }
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
  // What went wrong on our side is not charged to them.
  if (errorClass === 'ours')
    return { outcome: { kind: 'failed', reason, uncounted: true }, endpoint: 'unknown' }
  return { outcome: { kind: 'failed', reason }, endpoint: 'reached' }
}

/** Seconds, or a time, which is compared with the sender's own clock: clocks differ. Null: it says nothing. */
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
 * The three forms of RFC 9110; the oldest names no zone. Only what looks like them: `Date.parse` makes a year of almost
 * any number, and takes a time without a zone for local.
 */
function httpDateMs(text: string): number {
  const form = /^[A-Za-z]{3,9},? [A-Za-z0-9 -]{6,11} \d\d:\d\d:\d\d(?: \d{4})?( GMT| UTC| [+-]\d{4})?$/.exec(
    text,
  )
  if (form === null) return Number.NaN
  return Date.parse(form[1] === undefined ? `${text} GMT` : text)
}
