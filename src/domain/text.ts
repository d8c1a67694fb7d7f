import { PosthornError } from '../errors.ts'

/** PostgreSQL cannot store NUL in text, nor half of a surrogate pair, since its text is UTF-8. */
const unstorable = /[\0\p{Surrogate}]/u

export function isStorable(text: string): boolean {
  return !unstorable.test(text)
}

/** Counts characters as PostgreSQL and JSON Schema do: a pair of surrogates is one character. */
export function isLongerThan(text: string, charsMax: number): boolean {
  if (text.length <= charsMax) return false
  return text.length > 2 * charsMax || [...text].length > charsMax
}

/** Makes any text storable, such as an error: cuts it, and replaces characters that cannot be stored. */
export function toStorable(text: string, charsMax: number): string {
  const cut = text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text
  return isStorable(cut) ? cut : cut.replace(/[\0\p{Surrogate}]/gu, '\uFFFD')
}

const reasonCharsMax = 4_000

/** A reason in a form that can be stored. */
export function toReason(text: unknown): string {
  return toStorable(String(text), reasonCharsMax)
}

/** Checks a reason that a caller gives: an object would be stored as `[object Object]`. */
export function readReason(reason: unknown): string {
  if (typeof reason === 'string') return toReason(reason)
  throw new PosthornError('BAD_OPTION', { option: 'reason', expected: 'text', value: toDetail(reason) })
}

/** A value in a form that the details of an error can hold: small and serialisable. */
export function toDetail(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, 200)
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return value
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid date' : value.toISOString()
  if (Array.isArray(value)) return `an array of ${value.length}`
  return value === undefined ? 'nothing' : `a value of type ${typeof value}`
}
