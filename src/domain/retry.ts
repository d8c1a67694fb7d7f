import { badOption } from './bad-value.ts'
import { checkOptions, type NamesOf } from './known-names.ts'

/** How long to wait after a failure, and how many failures are allowed: with `failuresMax` 3 the third is final. */
export type RetryPolicy =
  | { readonly kind: 'fixed'; readonly delayMs: number; readonly failuresMax: number }
  | {
      readonly kind: 'exponential'
      readonly baseMs: number
      readonly factor: number
      readonly maxMs: number
      /** 0.2 spreads each delay over ± 20 %. */
      readonly jitter: number
      readonly failuresMax: number
    }
  | { readonly kind: 'schedule'; readonly delaysMs: readonly number[]; readonly failuresMax: number }

const second = 1000
const minute = 60 * second

/** A schedule of n delays allows n + 1 attempts. */
export function scheduleRetry(delaysMs: readonly number[]): RetryPolicy {
  return { kind: 'schedule', delaysMs, failuresMax: delaysMs.length + 1 }
}

export const defaultRetry = {
  handler: {
    kind: 'exponential',
    baseMs: second,
    factor: 2,
    maxMs: 10 * minute,
    jitter: 0.2,
    failuresMax: 10,
  },
  pull: { kind: 'fixed', delayMs: 5 * minute, failuresMax: 3 },
  webhook: scheduleRetry([5 * second, 30 * second, 5 * minute]),
} as const satisfies Record<string, RetryPolicy>

/** Deliveries that failed together are spread over a tenth of the delay, never earlier than the schedule says. */
const scheduleSpread = 0.1

/** The wait after the latest of `failures` failures, at least 1 ms. The caller passes `random`, which is in [0, 1). */
export function backoffMs(policy: RetryPolicy, failures: number, random: number): number {
  return Math.max(1, Math.round(delayMs(policy, failures, random)))
}

function delayMs(policy: RetryPolicy, failures: number, random: number): number {
  switch (policy.kind) {
    case 'fixed':
      return policy.delayMs
    case 'exponential': {
      const delay = Math.min(policy.maxMs, policy.baseMs * policy.factor ** (failures - 1))
      return Math.min(policy.maxMs, delay * (1 + policy.jitter * (2 * random - 1)))
    }
    case 'schedule': {
      // An event may allow more failures than the schedule has delays: then the last delay repeats.
      const delay = policy.delaysMs[Math.min(failures, policy.delaysMs.length) - 1] ?? second
      return delay * (1 + scheduleSpread * random)
    }
  }
}

const delayMsMax = 30 * 24 * 60 * minute
const failuresMaxMax = 1000

const policyNames = {
  fixed: { kind: true, delayMs: true, failuresMax: true },
  exponential: { kind: true, baseMs: true, factor: true, maxMs: true, jitter: true, failuresMax: true },
  schedule: { kind: true, delaysMs: true, failuresMax: true },
} as const satisfies { [Kind in RetryPolicy['kind']]: NamesOf<Extract<RetryPolicy, { kind: Kind }>> }

export function checkRetryPolicy(policy: RetryPolicy): RetryPolicy {
  if (!Object.hasOwn(policyNames, policy.kind)) {
    throw badOption('retry.kind', 'fixed, exponential or schedule', policy.kind)
  }
  checkOptions(policy, policyNames[policy.kind], `a ${policy.kind} retry policy`, { prefix: 'retry.' })
  check('retry.failuresMax', policy.failuresMax, 1, failuresMaxMax)
  switch (policy.kind) {
    case 'fixed':
      check('retry.delayMs', policy.delayMs, 0, delayMsMax)
      return policy
    case 'exponential':
      check('retry.baseMs', policy.baseMs, 1, delayMsMax)
      check('retry.maxMs', policy.maxMs, policy.baseMs, delayMsMax)
      checkNumber('retry.factor', policy.factor, 1, 100)
      checkNumber('retry.jitter', policy.jitter, 0, 1)
      return policy
    case 'schedule':
      if (!Array.isArray(policy.delaysMs)) throw badOption('retry.delaysMs', 'a list', policy.delaysMs)
      for (const delay of policy.delaysMs) check('retry.delaysMs', delay, 0, delayMsMax)
      check('retry.failuresMax', policy.failuresMax, policy.delaysMs.length + 1, policy.delaysMs.length + 1)
      return policy
  }
}

function check(option: string, value: number, min: number, max: number): void {
  if (!Number.isInteger(value)) throw badOption(option, 'an integer', value)
  checkNumber(option, value, min, max)
}

function checkNumber(option: string, value: number, min: number, max: number): void {
  if (typeof value === 'number' && value >= min && value <= max) return
  throw badOption(option, min === max ? String(min) : `from ${min} to ${max}`, value)
}
