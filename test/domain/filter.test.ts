import { describe, expect, test } from 'vitest'
import { parseFilter, parsePointer } from '../../src/domain/filter.ts'

describe('a pointer', () => {
  test.each([
    ['/payload', ['payload']],
    ['/payload/a/0/b', ['payload', 'a', '0', 'b']],
    ['/payload/a~1b/m~0n', ['payload', 'a/b', 'm~n']],
    ['/payload//x', ['payload', '', 'x']],
    ['/source/type', ['source', 'type']],
  ])('%s leads to %j', (pointer, path) => {
    expect(parsePointer('ordering_key', pointer)).toEqual(path)
  })

  test.each([
    '',
    'payload',
    '/',
    '/nothing',
    '/payloads',
    '/payload/~',
    '/payload/~2',
    '/payload/\0',
    7,
    null,
  ])('%j is refused by its name', (pointer) => {
    expect(() => parsePointer('ordering_key', pointer)).toThrow('Expected ordering_key to be a JSON pointer')
  })
})

describe('a filter', () => {
  test('has one condition for a value or a list, and one for each part of a condition', () => {
    const filter = { '/payload/paid': true, '/type': ['a', 'b'], '/payload/n': { gte: 1, lt: 5 } }
    expect(parseFilter(filter)).toEqual([
      { path: ['payload', 'paid'], op: 'any', operand: [true] },
      { path: ['type'], op: 'any', operand: ['a', 'b'] },
      { path: ['payload', 'n'], op: 'gte', operand: 1 },
      { path: ['payload', 'n'], op: 'lt', operand: 5 },
    ])
  })

  test.each([
    [{}, '1 to 20 conditions'],
    [[], 'conditions by JSON pointer'],
    [null, 'conditions by JSON pointer'],
    [{ '/payload/a': [] }, '1 to 100 texts, numbers, booleans or nulls'],
    [{ '/payload/a': [{}] }, '1 to 100 texts, numbers, booleans or nulls'],
    [{ '/payload/a': {} }, 'a value, a list of values, or exists'],
    [{ '/payload/a': { like: 'x' } }, 'a value, a list of values, or exists'],
    [{ '/payload/a': { gt: '1' } }, 'a value, a list of values, or exists'],
    [{ '/payload/a': { prefix: '' } }, 'a value, a list of values, or exists'],
    [{ '/payload/a': { prefix: 'a\0' } }, 'a value, a list of values, or exists'],
    [{ a: 1 }, 'a JSON pointer'],
    [{ '/payload/a': 2 ** 53 }, 'numbers that are exact'],
    [{ '/payload/a': [1, -(2 ** 60)] }, 'numbers that are exact'],
    [{ '/payload/a': { gte: 1e300 } }, 'numbers that are exact'],
    [{ '/payload/a': { lt: Number.POSITIVE_INFINITY } }, 'numbers that are exact'],
    [{ '/payload/a': Number.NaN }, 'numbers that are exact'],
  ])('%j is refused', (filter, expected) => {
    expect(() => parseFilter(filter)).toThrow(expected)
  })
})
