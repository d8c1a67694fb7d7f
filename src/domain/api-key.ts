import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import { badOption } from './bad-value.ts'
import { rate } from './subscription.ts'

/** What a key may do. `admin` includes everything. */
export const scopeNames = ['publish', 'consume', 'read', 'manage', 'admin'] as const
export type Scope = (typeof scopeNames)[number]

export function allows(scopes: readonly Scope[], needed: Scope): boolean {
  return scopes.includes(needed) || scopes.includes('admin')
}

export interface KeyParts {
  readonly id: string
  readonly secret: string
}

export interface NewKey extends KeyParts {
  /** The whole key, as callers send it: `ph_<id>_<secret>`. */
  readonly text: string
}

export function newKey(): NewKey {
  const id = Array.from({ length: idChars }, () => idAlphabet[randomInt(idAlphabet.length)]).join('')
  const secret = randomBytes(32).toString('base64url')
  return { id, secret, text: `ph_${id}_${secret}` }
}

/** Undefined for text that cannot be a key, so that it costs no query. */
export function parseKey(text: string): KeyParts | undefined {
  const [, id, secret] = keyForm.exec(text) ?? []
  return id === undefined || secret === undefined ? undefined : { id, secret }
}

export function isKeyId(text: string): boolean {
  return idForm.test(text)
}

/** A secret of 256 random bits cannot be guessed, so it needs no slow hash. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

/** Takes as long for a wrong secret as for the right one. */
export function matches(hash: Uint8Array, secret: string): boolean {
  const digest = hashSecret(secret)
  return hash.length === digest.length && timingSafeEqual(hash, digest)
}

/** The holder of a key. */
export interface KeyHolder {
  /** `admin` for the key from the environment. */
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly ratePerSecond: number | null
}

export interface KeyOptions {
  readonly name: string
  readonly scopes: readonly string[]
  /** Requests per second that the key may make. Default: the server's limit. */
  readonly ratePerSecond?: number | null
  /** Default: the key does not expire. */
  readonly expiresAt?: Date | null
}

/** A checked definition of a key. */
export interface KeyDefinition extends Omit<KeyHolder, 'id'> {
  readonly expiresAt: Date | null
}

export function defineKey({ name, scopes, ratePerSecond, expiresAt }: KeyOptions): KeyDefinition {
  return Object.freeze({
    name: checkName(name),
    scopes: checkScopes(scopes),
    ratePerSecond: ratePerSecond == null ? null : rate(ratePerSecond),
    expiresAt: expiresAt == null ? null : checkExpiry(expiresAt),
  })
}

const idChars = 12
const idAlphabet = 'abcdefghijklmnopqrstuvwxyz0123456789'
const idForm = /^[a-z0-9]{12}$/
const keyForm = /^ph_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$/
/** No control characters, since names are shown in terminals. */
const nameForm = /^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u
const expiryEndMs = Date.UTC(9999, 0)

function checkName(name: unknown): string {
  if (typeof name === 'string' && nameForm.test(name) && name.trim() === name) return name
  throw badOption('name', '1 to 100 printable characters', name)
}

/** Each scope once, in the order of the table. */
function checkScopes(scopes: unknown): Scope[] {
  const expected = `some of ${scopeNames.join(', ')}`
  if (!Array.isArray(scopes) || scopes.length === 0) throw badOption('scopes', expected, scopes)
  const unknown = scopes.find((scope) => !scopeNames.includes(scope))
  if (unknown !== undefined) throw badOption('scopes', expected, unknown)
  return scopeNames.filter((scope) => scopes.includes(scope))
}

/** The database decides by its clock whether the time is in the future. */
function checkExpiry(time: unknown): Date {
  if (time instanceof Date && time.getTime() < expiryEndMs) return time
  throw badOption('expiresAt', 'a date before the year 9999', time)
}
