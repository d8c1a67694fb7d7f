import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sign, verify } from '../../../src/webhooks/index.ts'

// Their clock cannot be given, so it is stopped.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-07-01T12:00:00Z') })
})
afterEach(() => {
  vi.useRealTimers()
})

const delivery = fc.record({
  id: fc.uuid(),
  body: fc.json({ stringUnit: 'binary' }),
  secret: fc
    .uint8Array({ minLength: 24, maxLength: 64 })
    .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`),
})

test('what we sign, the package standardwebhooks verifies', () => {
  fc.assert(
    fc.property(delivery, ({ id, body, secret }) => {
      const headers = sign(body, { id, secrets: [`whsec_${'A'.repeat(32)}`, secret] })
      expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
    }),
  )
})

test('what the package standardwebhooks signs, we verify', () => {
  fc.assert(
    fc.property(delivery, ({ id, body, secret }) => {
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(Date.now() / 1000),
        'webhook-signature': new Webhook(secret).sign(id, new Date(), body),
      }
      expect(verify(Buffer.from(body), headers, secret).id).toBe(id)
    }),
  )
})

test.each([
  [300, true],
  [301, false],
  [-300, true],
  [-301, false],
])('%i s later both agree: %s', (later, fresh) => {
  const secret = `whsec_${'B'.repeat(32)}`
  const headers = sign('{}', { id: 'a', secrets: secret })
  vi.setSystemTime(Date.now() + later * 1000)
  expect(passes(() => new Webhook(secret).verify('{}', headers))).toBe(fresh)
  expect(passes(() => verify('{}', headers, secret))).toBe(fresh)
})

function passes(check: () => unknown): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}
