import { PosthornError } from '../errors.ts'

/** PostgreSQL's text holds neither NUL nor, being UTF-8, half of a surrogate pair. */
const unstorable = /[\0\p{Surrogate}]/u

export function isStorable(text: string): boolean {
  return !unstorable.test(text)
}

/** In characters as PostgreSQL and JSON Schema count them: a pair of surrogates is one. */
export function isLongerThan(text: string, charsMax: number): boolean {
  if (text.length <= charsMax) return false
  return text.length > 2 * charsMax || [...text].length > charsMax
}

/** For text that must be kept whatever it holds, such as errors: cut, and what cannot be stored replaced. */
export function toStorable(text: string, charsMax: number): string {
  const cut = text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text
  return isStorable(cut) ? cut : cut.replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

const reasonCharsMax = 4_000

/** Why something was done or failed: kept whatever it holds. */
export function toReason(text: unknown): string {
  return toStorable(String(text), reasonCharsMax)
}

/** For a reason that a caller gives: of an object nothing but `[object Object]` would be stored. */
export function readReason(reason: unknown): string {
  if (typeof reason === 'string') return toReason(reason)
  throw new PosthornError('BAD_OPTION', { option: 'reason', expected: 'text', value: toDetail(reason) })
}

/** A value as error details can hold it: small, and serialisable whatever the caller passed. */
export function toDetail(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, 200)
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return value
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid date' : value.toISOString()
  if (Array.isArray(value)) return `an array of ${value.length}`
  return value === undefined ? 'nothing' : `a value of type ${typeof value}`
}
