import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type EventInput, parseEvent } from '../../src/domain/event.ts'
import { payloadBytesMax } from '../../src/domain/payload.ts'

const ofValue = (payload: unknown) => parseEvent({ type: 'a', payload } as EventInput).payloadText
const ofText = (payloadText: string) => parseEvent({ type: 'a', payloadText }).payloadText
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

test('a value is stored as JSON.stringify prints it', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(ofValue(value)).toBe(JSON.stringify(value))
    }),
  )
})

describe('text is kept byte for byte', () => {
  test.each([
    ' { "b" : 1,\n\t"a": 2, "a": 3 }\r\n',
    '12345678901234567890',
    '1e400',
    '1.10',
    '"\\u0000 \\ud800 \\/ \\u00e4 ä 😀"',
    '{"__proto__":{"x":1}}',
    'null',
  ])('%j', (text) => {
    expect(ofText(text)).toBe(text)
  })
})

describe('a value without a JSON form is refused with a reason', () => {
  const circular: { self?: unknown } = {}
  circular.self = circular
  const deep = Array.from({ length: 100_000 }).reduce((inner: unknown) => [inner], null)
  test.each<[string, unknown, RegExp]>([
    ['a bigint', { n: 1n }, /BigInt/],
    ['a circle', circular, /circular/],
    ['a function', () => 1, /type function/],
    ['a symbol', Symbol('s'), /type symbol/],
    ['a toJSON that returns nothing', { toJSON: () => undefined }, /type object/],
    ['a toJSON that throws no error', { toJSON: () => { throw null } }, /could not be read/], // biome-ignore format: one line per case
    ['a value too deep for the stack', deep, /call stack|nested/],
    ['65 levels', JSON.parse(nested(65)), /64 deep/],
  ])('%s', (_, payload, reason) => {
    expect(() => ofValue(payload)).toThrow(
      expect.objectContaining({ code: 'BAD_PAYLOAD', details: { reason: expect.stringMatching(reason) } }),
    )
  })
})

describe('text that is not JSON is refused', () => {
  test.each([
    '',
    ' ',
    '{',
    "{'a':1}",
    '[1,]',
    'undefined',
    'NaN',
    '01',
    '"a\0b"',
    '"\n"',
    '\ufeff1',
    '1 2',
    '"\ud800"',
  ])('%j', (text) => {
    expect(() => ofText(text)).toThrow(expect.objectContaining({ code: 'BAD_PAYLOAD', status: 400 }))
  })
})

test('64 levels are the limit, and brackets inside of strings are none', () => {
  expect(ofText(nested(64))).toBe(nested(64))
  expect(() => ofText(nested(65))).toThrow('nested more than 64 deep')
  expect(() => ofText(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`)).toThrow('nested more than 64 deep')
  expect(() => ofText('['.repeat(payloadBytesMax))).toThrow('nested more than 64 deep')
  const strings = JSON.stringify(['['.repeat(100), '\\', `"${'{'.repeat(100)}`, '\\"['])
  expect(ofText(strings)).toBe(strings)
  const siblings = JSON.stringify(Array.from({ length: 100 }, () => [[]]))
  expect(ofText(siblings)).toBe(siblings)
})

test('the size counts in bytes of UTF-8', () => {
  const full = `"${'ä'.repeat((payloadBytesMax - 2) / 2)}"`
  expect(ofText(full)).toBe(full)
  expect(() => ofText(`${full} `)).toThrow(
    expect.objectContaining({
      code: 'PAYLOAD_TOO_LARGE',
      details: { bytes: payloadBytesMax + 1, bytesMax: payloadBytesMax },
    }),
  )
  expect(() => ofValue('ä'.repeat(payloadBytesMax / 2))).toThrow(expect.objectContaining({ status: 413 }))
})
