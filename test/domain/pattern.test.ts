import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkPattern, matchesPattern, patternsFor } from '../../src/domain/pattern.ts'

test.each(['a', 'a.b', 'a.*', 'a.b-c_d:e.*', '*', 'x'.repeat(100)])('%s is a pattern', (pattern) => {
  expect(checkPattern(pattern)).toBe(pattern)
})

test.each(['', '.*', '**', 'a*', 'a.*.b', '*.a', 'a.**', 'a.*\n', 'a b', 'x'.repeat(101)])(
  '%j is no pattern',
  (pattern) => {
    expect(() => checkPattern(pattern)).toThrow(expect.objectContaining({ code: 'BAD_OPTION' }))
  },
)

test.each<[string, string, boolean]>([
  ['a.b', 'a.b', true],
  ['a.b', 'a.b.c', false],
  ['a.*', 'a.b', true],
  ['a.*', 'a.b.c', true],
  ['a.*', 'a', false],
  ['a.*', 'ab.c', false],
  ['a.b.*', 'a.b', false],
  ['*', 'a', true],
  ['*', 'a.b.c', true],
])('%s matches %s: %s', (pattern, type, matches) => {
  expect(matchesPattern(pattern, type)).toBe(matches)
})

test('the patterns of a type come most specific first', () => {
  expect(patternsFor('a.b.c')).toEqual(['a.b.c', 'a.b.*', 'a.*', '*'])
  expect(patternsFor('a')).toEqual(['a', '*'])
})

test('the patterns of a type are exactly those that match it', () => {
  const type = fc.string({ unit: fc.constantFrom('a', 'b', '.', ':'), minLength: 1, maxLength: 8 })
  const pattern = fc.oneof(
    type,
    type.map((prefix) => `${prefix}.*`),
    fc.constant('*'),
  )
  fc.assert(
    fc.property(type, pattern, (type, pattern) => {
      for (const own of patternsFor(type)) expect(matchesPattern(checkPattern(own), type)).toBe(true)
      expect(patternsFor(type).includes(pattern)).toBe(matchesPattern(pattern, type))
    }),
    { numRuns: 2000 },
  )
})
