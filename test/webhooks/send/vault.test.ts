import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PosthornError } from '../../../src/errors.ts'
import { parseVaultKeys, Vault } from '../../../src/webhooks/send/vault.ts'

const oldText = Buffer.alloc(32, 1).toString('base64')
const newText = Buffer.alloc(32, 2).toString('hex')
const [oldKey] = parseVaultKeys(oldText)
const vault = new Vault(parseVaultKeys(oldText))

function refusal(open: () => string): { code: string; keyId: unknown } {
  try {
    open()
  } catch (error) {
    if (error instanceof PosthornError) return { code: error.code, keyId: error.details.keyId }
    throw error
  }
  throw new Error('it was opened')
}

describe('the vault', () => {
  test('gives back what it sealed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (secret, context) => {
        expect(vault.open(vault.seal(secret, context), context)).toBe(secret)
      }),
    )
  })

  test('shows neither the secret nor the key, and never seals twice the same', () => {
    const sealed = vault.seal('whsec_hunter2', 'subscription 1')
    expect(sealed).not.toContain('hunter2')
    expect(sealed).not.toBe(vault.seal('whsec_hunter2', 'subscription 1'))
    expect(inspect(vault, { depth: 9, showHidden: true })).not.toContain('01 01')
    expect(JSON.stringify(vault)).toBe('{}')
  })

  test('a secret that was copied elsewhere does not open', () => {
    const sealed = vault.seal('secret', 'subscription 1')
    expect(refusal(() => vault.open(sealed, 'subscription 2')).code).toBe('SECRET_KEY_WRONG')
  })

  test('a key that is missing is named by its id', () => {
    const sealed = vault.seal('secret', 'c')
    const other = new Vault(parseVaultKeys(newText))
    expect(refusal(() => other.open(sealed, 'c'))).toEqual({ code: 'SECRET_KEY_WRONG', keyId: oldKey?.id })
  })

  test('another key under the same id does not open either', () => {
    const impostor = new Vault([{ id: oldKey?.id as string, bytes: randomBytes(32) }])
    const sealed = vault.seal('secret', 'c')
    expect(refusal(() => impostor.open(sealed, 'c'))).toEqual({ code: 'SECRET_KEY_WRONG', keyId: oldKey?.id })
  })

  test('what is changed in one character, cut or lengthened does not open', () => {
    const sealed = vault.seal('whsec_secret', 'c')
    for (let place = 0; place < sealed.length; place++) {
      for (const character of ['A', 'B', '_', '.', '=', ' ']) {
        if (sealed[place] === character) continue
        const changed = sealed.slice(0, place) + character + sealed.slice(place + 1)
        expect(refusal(() => vault.open(changed, 'c')).code).toBe('SECRET_KEY_WRONG')
      }
      expect(refusal(() => vault.open(sealed.slice(0, place), 'c')).code).toBe('SECRET_KEY_WRONG')
    }
    for (const end of ['A', '=', '!', '\n', '.A']) {
      expect(refusal(() => vault.open(sealed + end, 'c')).code).toBe('SECRET_KEY_WRONG')
    }
  })

  test.each(['', 'whsec_plain', 'v1.', 'v2.00000000.AAAA'])('%j was never sealed', (text) => {
    expect(refusal(() => vault.open(text, 'c'))).toEqual({ code: 'SECRET_KEY_WRONG', keyId: 'unknown' })
  })

  test('after a rotation the new key seals and the old one still opens', () => {
    const before = vault.seal('secret', 'c')
    const rotated = new Vault(parseVaultKeys(`${newText}, ${oldText}`))
    expect(rotated.open(before, 'c')).toBe('secret')
    expect([vault, rotated].map(({ prefix }) => before.startsWith(prefix))).toEqual([true, false])

    const again = rotated.seal(rotated.open(before, 'c'), 'c')
    expect(again.startsWith(rotated.prefix)).toBe(true)
    expect(new Vault(parseVaultKeys(newText)).open(again, 'c')).toBe('secret')
    expect(refusal(() => vault.open(again, 'c')).code).toBe('SECRET_KEY_WRONG')
  })

  test('without a key nothing is sealed, and nothing is current', () => {
    const empty = new Vault([])
    expect([empty.isReady, vault.isReady]).toEqual([false, true])
    expect(refusal(() => empty.seal('secret', 'c')).code).toBe('SECRET_KEY_MISSING')
    expect(() => empty.prefix).toThrow(expect.objectContaining({ code: 'SECRET_KEY_MISSING' }))
  })
})

describe('keys', () => {
  test('are read as base64, as base64url and as hex, and are the same key', () => {
    const bytes = Buffer.alloc(32, 0xfb)
    const forms = [bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('hex').toUpperCase()]
    const keys = forms.flatMap((form) => parseVaultKeys(`\n${form} `))
    expect(keys.map((key) => key.bytes.equals(bytes))).toEqual([true, true, true])
    expect(new Set(keys.map(({ id }) => id)).size).toBe(1)
  })

  test.each([
    '',
    'hunter2',
    `${oldText},`,
    `${oldText},hunter2`,
    Buffer.alloc(31, 1).toString('base64'),
    Buffer.alloc(33, 1).toString('base64'),
    newText.slice(1),
    'correct horse battery staple makes a passphrase and no key',
    `${newText.slice(0, 62)}zz`,
  ])('%j is refused and not shown', (text) => {
    expect(() => parseVaultKeys(text)).toThrow(
      'Expected POSTHORN_SECRET_KEY to be 32 random bytes as base64 or hex (openssl rand -base64 32), got something else.',
    )
  })
})
