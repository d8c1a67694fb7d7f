import { badOption } from './bad-value.ts'

export const patternForm = /^(\*|[A-Za-z0-9_.:-]+(\.\*)?)$/
export const patternCharsMax = 100

/** A pattern is `order.created` (that type), `order.*` (every type that begins with `order.`) or `*` (every type). */
export function checkPattern(pattern: string): string {
  if (typeof pattern === 'string' && pattern.length <= patternCharsMax && patternForm.test(pattern))
    return pattern
  const expected = `a type, a type followed by .*, or *, of at most ${patternCharsMax} characters`
  throw badOption('type pattern', expected, pattern)
}

export function matchesPattern(pattern: string, type: string): boolean {
  if (pattern === '*' || pattern === type) return true
  return pattern.endsWith('.*') && type.startsWith(pattern.slice(0, -1))
}

/** Every pattern that matches the type, most specific first, so that handlers are looked up instead of searched. */
export function patternsFor(type: string): string[] {
  const patterns = [type]
  // A leading dot has no segment before it, and `.*` is not a pattern.
  for (let dot = type.lastIndexOf('.'); dot > 0; dot = type.lastIndexOf('.', dot - 1)) {
    patterns.push(`${type.slice(0, dot)}.*`)
  }
  return [...patterns, '*']
}
