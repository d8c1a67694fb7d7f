import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  allows,
  defineKey,
  hashSecret,
  isKeyId,
  matches,
  newKey,
  parseKey,
  type Scope,
  scopeNames,
} from '../../src/domain/api-key.ts'

const secret = 'A'.repeat(43)

test('a new key is ph_, 12 letters or digits, and 32 random bytes', () => {
  const key = newKey()
  expect(key.text).toMatch(/^ph_[a-z0-9]{12}_[A-Za-z0-9_-]{43}$/)
  expect(Buffer.from(key.secret, 'base64url')).toHaveLength(32)
  expect(isKeyId(key.id)).toBe(true)
})

test('a thousand keys have a thousand ids and secrets, and each is parsed back', () => {
  const made = Array.from({ length: 1000 }, newKey)
  expect(new Set(made.map(({ id }) => id)).size).toBe(1000)
  expect(new Set(made.map((key) => key.secret)).size).toBe(1000)
  // Secrets hold underscores too, and these do not end the id.
  expect(made.some((key) => key.secret.includes('_'))).toBe(true)
  for (const key of made) expect(parseKey(key.text)).toEqual({ id: key.id, secret: key.secret })
})

test.each([
  '',
  'ph_',
  secret,
  `ph_abcdefghijk_${secret}`,
  `ph_abcdefghijklm_${secret}`,
  `ph_ABCDEFGHIJKL_${secret}`,
  `PH_abcdefghijkl_${secret}`,
  `ph_abcdefghijkl_${secret}A`,
  `ph_abcdefghijkl_${secret.slice(1)}`,
  `ph_abcdefghijkl_${secret.slice(1)}+`,
  `ph_abcdefghijkl_${secret}\n`,
  ` ph_abcdefghijkl_${secret}`,
])('%j is no key', (text) => {
  expect(parseKey(text)).toBeUndefined()
})

test('a secret is kept as its SHA-256', () => {
  expect(hashSecret('abc').toString('hex')).toBe(
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
  )
})

test('a hash matches its secret and no other, and one of another length matches nothing', () => {
  const key = newKey()
  const hash = hashSecret(key.secret)
  expect(matches(hash, key.secret)).toBe(true)
  expect(matches(hash, newKey().secret)).toBe(false)
  expect(matches(hash, '')).toBe(false)
  expect(matches(hash.subarray(0, 31), key.secret)).toBe(false)
  expect(matches(Buffer.alloc(0), '')).toBe(false)
  expect(matches(createHash('sha512').update(key.secret).digest(), key.secret)).toBe(false)
})

describe('what a scope allows', () => {
  test.each(scopeNames.flatMap((held) => scopeNames.map((needed) => [held, needed] as const)))(
    '%s asked for %s',
    (held, needed) => {
      expect(allows([held], needed)).toBe(held === needed || held === 'admin')
    },
  )

  test('several allow each of them, and none allows nothing', () => {
    const scopes: Scope[] = ['publish', 'read']
    expect(scopeNames.filter((needed) => allows(scopes, needed))).toEqual(scopes)
    expect(scopeNames.filter((needed) => allows([], needed))).toEqual([])
  })
})

test('a definition has each scope once, in one order, and says what was left out', () => {
  expect(defineKey({ name: 'Rechnung 7 (日本)', scopes: ['read', 'publish', 'read'] })).toEqual({
    name: 'Rechnung 7 (日本)',
    scopes: ['publish', 'read'],
    ratePerSecond: null,
    expiresAt: null,
  })
})

test.each([
  ['name', { name: '' }],
  ['name', { name: ' billing' }],
  ['name', { name: 'x'.repeat(101) }],
  ['name', { name: 'bill\u0000ing' }],
  ['name', { name: 'bill\u001b[31ming' }],
  ['name', { name: 'bill\ning' }],
  ['name', { name: 'bill\u202eing' }],
  ['name', { name: undefined }],
  ['scopes', { scopes: [] }],
  ['scopes', { scopes: ['publish', 'Read'] }],
  ['scopes', { scopes: ['publish', ''] }],
  ['scopes', { scopes: ['constructor'] }],
  ['scopes', { scopes: 'publish' }],
  ['ratePerSecond', { ratePerSecond: 0 }],
  ['ratePerSecond', { ratePerSecond: -1 }],
  ['ratePerSecond', { ratePerSecond: Number.NaN }],
  ['ratePerSecond', { ratePerSecond: Number.POSITIVE_INFINITY }],
  ['ratePerSecond', { ratePerSecond: '5' }],
  ['expiresAt', { expiresAt: new Date(Number.NaN) }],
  ['expiresAt', { expiresAt: new Date(Date.UTC(9999, 0)) }],
  ['expiresAt', { expiresAt: '2027-01-01T00:00:00Z' }],
])('a key with such a %s is refused: %j', (option, wrong) => {
  const options = { name: 'billing', scopes: ['publish'], ...wrong } as Parameters<typeof defineKey>[0]
  expect(() => defineKey(options)).toThrow(
    expect.objectContaining({ code: 'BAD_OPTION', details: expect.objectContaining({ option }) }),
  )
})
