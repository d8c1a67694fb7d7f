import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatLeaseToken, parseLeaseToken } from '../../src/domain/lease-token.ts'

const lease = fc.record({
  runId: fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.maxSafeNat()),
  token: fc.integer({ min: 2 ** 47, max: 2 ** 48 - 1 }),
  subscription: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 2 ** 21 - 1 })),
  lane: fc.boolean(),
})

test('a lease token says what it was made of', () => {
  fc.assert(
    fc.property(lease, (parts) => {
      const text = formatLeaseToken(parts)
      expect(text).toMatch(/^[kr][0-9a-z]+-[0-9a-z]{10}-[0-9a-z]+$/)
      expect(parseLeaseToken(text)).toEqual(parts)
    }),
  )
})

test('a lease token that is altered anywhere has another random part, or is none', () => {
  const digits = '0123456789abcdefghijklmnopqrstuvwxyz-'
  for (const parts of fc.sample(lease, { numRuns: 20, seed: 1 })) {
    const text = formatLeaseToken(parts)
    for (let at = 0; at <= text.length; at++) {
      for (const digit of digits) {
        for (const altered of [
          text.slice(0, at) + digit + text.slice(at + 1),
          text.slice(0, at) + digit + text.slice(at),
        ]) {
          if (altered !== text) expect(randomPart(altered), `${text} as ${altered}`).not.toBe(parts.token)
        }
      }
    }
  }
})

function randomPart(text: string): number | undefined {
  try {
    return parseLeaseToken(text).token
  } catch {
    return undefined
  }
}
