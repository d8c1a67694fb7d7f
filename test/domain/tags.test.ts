import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseTags } from '../../src/domain/tags.ts'

describe('tags are trimmed, kept once and in their order', () => {
  test.each<[unknown, string[] | null]>([
    ['a,b', ['a', 'b']],
    [' b , a ,b,', ['b', 'a']],
    [
      ['b ', 'a', 'b'],
      ['b', 'a'],
    ],
    ['', null],
    [' , ', null],
    [[], null],
    ['x'.repeat(100), ['x'.repeat(100)]],
  ])('%j', (input, tags) => {
    expect(parseTags(input)).toEqual(tags)
  })
})

describe('a bad tag is refused', () => {
  test.each<[string, unknown]>([
    ['empty', ['']],
    ['blank', [' ']],
    ['with a comma', ['a,b']],
    ['of 101 characters', ['x'.repeat(101)]],
    ['with NUL', 'a\0b'],
    ['with a lone surrogate', ['\udc00']],
    ['that is a number', [7]],
    ['that is a hole', [undefined]],
    ['the 33rd', Array.from({ length: 33 }, (_, i) => `t${i}`)],
    ['in an object', { a: 1 }],
  ])('%s', (_, input) => {
    expect(() => parseTags(input)).toThrow(expect.objectContaining({ code: 'BAD_EVENT' }))
  })
})

test('33 tags of which two are the same are 32', () => {
  expect(parseTags([...Array.from({ length: 32 }, (_, i) => `t${i}`), 't0'])).toHaveLength(32)
})

test('tags joined by commas parse to the same tags', () => {
  const tag = fc
    .string({ minLength: 1, maxLength: 8 })
    .filter((text) => text.trim() === text && !/[,\0]/.test(text))
  fc.assert(
    fc.property(fc.uniqueArray(tag, { minLength: 1, maxLength: 32 }), (tags) => {
      expect(parseTags(tags.join(','))).toEqual(tags)
    }),
  )
})
