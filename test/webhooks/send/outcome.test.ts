import { describe, expect, test } from 'vitest'
import type { StatusRules } from '../../../src/domain/endpoint.ts'
import {
  decide,
  type ErrorClass,
  errorClasses,
  readRetryAfter,
} from '../../../src/webhooks/send/webhook-outcome.ts'

function answer(status: number, rules?: StatusRules, retryAfterMs: number | null = null) {
  return decide({ kind: 'answered', status, retryAfterMs }, rules)
}

/** The matrix in one word. */
function fate(status: number, rules?: StatusRules): 'delivered' | 'retry' | 'dead letter' | 'held' {
  const { outcome, endpoint } = answer(status, rules)
  if (outcome.kind === 'succeeded') return 'delivered'
  if (outcome.kind !== 'failed') throw new Error(`${status} became ${outcome.kind}`)
  if (endpoint === 'gone' && outcome.uncounted) return 'held'
  return outcome.permanent ? 'dead letter' : 'retry'
}

describe('the matrix', () => {
  test.each([
    [200, 299, 'delivered'],
    [300, 399, 'dead letter'],
    [400, 409, 'dead letter'],
    [410, 410, 'held'],
    [411, 428, 'dead letter'],
    [429, 429, 'retry'],
    [430, 499, 'dead letter'],
    [500, 599, 'retry'],
  ])('%i to %i: %s', (from, to, expected) => {
    for (let status = from; status <= to; status++) expect([status, fate(status)]).toEqual([status, expected])
  })

  test('every answer shows that the endpoint can be reached; 410, that it is gone', () => {
    for (let status = 200; status <= 599; status++) {
      expect(answer(status).endpoint).toBe(status === 410 ? 'gone' : 'reached')
    }
  })

  test('a failure says what was answered, and counts', () => {
    expect(answer(503).outcome).toEqual({ kind: 'failed', reason: 'The endpoint answered 503' })
    expect(answer(404).outcome).toEqual({
      kind: 'failed',
      reason: 'The endpoint answered 404',
      permanent: true,
    })
  })

  test('patience that was asked for counts where it is tried again', () => {
    expect(answer(429, {}, 7000).outcome).toMatchObject({ retryAfterMs: 7000 })
    expect(answer(503, {}, 7000).outcome).toMatchObject({ retryAfterMs: 7000 })
    expect(answer(404, { '404': 'retry' }, 7000).outcome).toMatchObject({ retryAfterMs: 7000 })
    expect(answer(404, {}, 7000).outcome).not.toHaveProperty('retryAfterMs')
    expect(answer(200, {}, 7000).outcome).toEqual({ kind: 'succeeded' })
  })
})

describe('rules of a subscriber', () => {
  test.each<[string, StatusRules, number, string]>([
    ['a number', { '404': 'retry' }, 404, 'retry'],
    ['and only this number', { '404': 'retry' }, 405, 'dead letter'],
    ['a class', { '5xx': 'bury' }, 502, 'dead letter'],
    ['and only this class', { '5xx': 'bury' }, 404, 'dead letter'],
    ['a class also beats the default of 429', { '4xx': 'bury' }, 429, 'dead letter'],
    ['a number before its class', { '5xx': 'bury', '503': 'retry' }, 503, 'retry'],
    ['delivered by rule', { '409': 'deliver' }, 409, 'delivered'],
    ['a redirect taken for a success', { '3xx': 'deliver' }, 304, 'delivered'],
    ['a success taken for none', { '202': 'retry' }, 202, 'retry'],
    ['410 is gone whatever its class does', { '4xx': 'retry' }, 410, 'held'],
    ['410 is gone even where its class is delivered', { '4xx': 'deliver' }, 410, 'held'],
    ['410 by its number', { '410': 'bury' }, 410, 'dead letter'],
    ['410 delivered by its number', { '410': 'deliver' }, 410, 'delivered'],
  ])('%s', (_, rules, status, expected) => {
    expect(fate(status, rules)).toBe(expected)
  })
})

describe('no answer', () => {
  const retry = { permanent: undefined, uncounted: undefined }
  const free = { permanent: undefined, uncounted: true }
  const table: Record<ErrorClass, [endpoint: string, flags: object]> = {
    dns: ['unreachable', free],
    refused: ['unreachable', free],
    reset: ['unreachable', free],
    tls: ['unreachable', free],
    connect_timeout: ['unreachable', free],
    timeout: ['reached', retry],
    protocol: ['reached', retry],
    blocked: ['unknown', { permanent: true, uncounted: undefined }],
    ours: ['unknown', free],
  }

  test.each(errorClasses)('%s', (errorClass) => {
    const { outcome, endpoint } = decide({ kind: 'failed', errorClass, message: 'how it was' })
    const [expected, flags] = table[errorClass]
    expect(endpoint).toBe(expected)
    expect(outcome).toMatchObject({ kind: 'failed', reason: `${errorClass}: how it was` })
    const { permanent, uncounted } = outcome as { permanent?: boolean; uncounted?: boolean }
    expect({ permanent, uncounted }).toEqual(flags)
  })

  test('no rule for statuses changes what it means', () => {
    const failed = { kind: 'failed', errorClass: 'timeout', message: 'x' } as const
    expect(decide(failed, { '5xx': 'bury', '4xx': 'deliver' })).toEqual(decide(failed))
  })
})

describe('Retry-After', () => {
  const nowMs = Date.parse('2026-07-01T12:00:00Z')
  const day = 86_400_000

  test.each<[string | null, number | null]>([
    [null, null],
    ['', null],
    ['120', 120_000],
    [' 120 ', 120_000],
    ['0', 1000],
    ['0.2', 1000],
    ['1.5', 1500],
    ['2.0001', 2001],
    ['86400', day],
    ['86401', day],
    ['1000000000000', day],
    ['9'.repeat(400), day],
    ['1e12', null],
    ['-5', null],
    ['+5', null],
    ['.5', null],
    ['5.', null],
    ['5, 5', null],
    ['5s', null],
    ['0x10', null],
    ['soon', null],
    ['2026-07-01T12:01:00Z', null],
    ['July 1, 2026', null],
    ['NaN', null],
    ['Infinity', null],
  ])('%j: %j ms', (value, expected) => {
    expect(readRetryAfter(value, null, nowMs)).toBe(expected)
  })

  test.each<[string, string | null, number | null]>([
    ['Wed, 01 Jul 2026 12:01:00 GMT', null, 60_000],
    ['Wednesday, 01-Jul-26 12:01:00 GMT', null, 60_000],
    ['Wed Jul  1 12:01:00 2026', null, 60_000],
    ['Wed, 01 Jul 2026 14:01:00 +0200', null, 60_000],
    ['Wed, 01 Jul 2026 12:01:00', null, 60_000],
    ['Wed, 01 Jul 2026 11:00:00 GMT', null, 1000],
    ['Fri, 01 Jan 2100 00:00:00 GMT', null, day],
    ['Wed, 99 Jul 2026 12:01:00 GMT', null, null],
    ['Wed, 01 Foo 2026 12:01:00 GMT', null, null],
    // Their clock is an hour behind, or a year ahead: the difference counts.
    ['Wed, 01 Jul 2026 11:01:00 GMT', 'Wed, 01 Jul 2026 11:00:00 GMT', 60_000],
    ['Thu, 01 Jul 2027 12:00:05 GMT', 'Thu, 01 Jul 2027 12:00:00 GMT', 5000],
    ['Wed, 01 Jul 2026 11:00:00 GMT', 'Wed, 01 Jul 2026 12:30:00 GMT', 1000],
    ['Wed, 01 Jul 2026 12:01:00 GMT', '1', 60_000],
    ['Wed, 01 Jul 2026 12:01:00 GMT', 'nonsense', 60_000],
    ['120', 'Wed, 01 Jul 2020 12:00:00 GMT', 120_000],
  ])('%j with Date %j: %j ms', (value, date, expected) => {
    expect(readRetryAfter(value, date, nowMs)).toBe(expected)
  })
})
