import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findJsonFault } from '../../src/cli/json-fault.ts'

test.each([
  ['', 'it ends too early, at line 1, column 1'],
  ['{"n":1', 'it ends too early, at line 1, column 7'],
  ['{"n":1, }', 'line 1, column 9 cannot be read, from here on: }'],
  ['{"n":\n  [1, 2,\n   tru]}', 'line 3, column 4 cannot be read, from here on: tru]}'],
  ["{'n':1}", "line 1, column 2 cannot be read, from here on: 'n':1}"],
  ['{"n" 1}', 'line 1, column 6 cannot be read, from here on: 1}'],
  ['[1 2]', 'line 1, column 4 cannot be read, from here on: 2]'],
  ['"a\tb"', 'line 1, column 1 cannot be read, from here on: "a\tb"'],
  ['01', 'line 1, column 2 cannot be read, from here on: 1'],
  ['hello', 'line 1, column 1 cannot be read, from here on: hello'],
  ['['.repeat(65), 'it is nested more than 64 deep, at line 1, column 65'],
  ['\n{"a":'.repeat(65), 'it is nested more than 64 deep, at line 66, column 1'],
  ['['.repeat(6_000), 'it is nested more than 64 deep, at line 1, column 65'],
  ['{} {}', 'line 1, column 4 cannot be read, from here on: {}'],
])('%s is told where it cannot be read', (text, fault) => {
  expect(findJsonFault(text)).toBe(fault)
})

test('64 deep is not too deep', () => {
  expect(findJsonFault('['.repeat(64) + ']'.repeat(64))).toBeUndefined()
  expect(findJsonFault(`[${'[{}],'.repeat(100)}1]`)).toBeUndefined()
})

test('whatever is JSON has no fault, and whatever is not has one', () => {
  const nearly = fc.string({ unit: fc.constantFrom(...'{}[]",:0-1.e\\u n\ntrue\u0001\u007fé') })
  fc.assert(
    fc.property(fc.oneof(fc.json(), nearly), (text) => {
      expect(findJsonFault(text) === undefined).toBe(isJson(text))
    }),
    { numRuns: 5_000 },
  )
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
