import fc from 'fast-check'
import { expect, test } from 'vitest'
import { describeError, errorCharsMax } from '../../src/domain/describe-error.ts'

const throws = (): never => {
  throw new Error('not readable')
}

test('an error is told with its stack and its causes', () => {
  const error = new TypeError('outer', { cause: new Error('inner', { cause: 'root' }) })
  expect(describeError(error)).toMatch(
    /^TypeError: outer\n {4}at .+\ncaused by: Error: inner\n {4}at .+\ncaused by: root$/s,
  )
})

test('of several errors in one the first is told', () => {
  const error = new AggregateError([new Error('refused'), new Error('refused too')])
  expect(describeError(error)).toMatch(/^AggregateError\n {4}at .+\ncaused by: Error: refused\n/s)
})

test('the other fields of an error are not told', () => {
  expect(
    describeError(Object.assign(new Error('x'), { headers: { authorization: 'secret' } })),
  ).not.toContain('secret')
})

test('a circle of causes ends', () => {
  const error = new Error('round')
  error.cause = error
  expect(describeError(error).match(/Error: round/g)?.length).toBeLessThanOrEqual(5)
})

test('a long message leaves room for the stack', () => {
  const text = describeError(new Error('x'.repeat(1_000_000)))
  expect(text.length).toBeLessThanOrEqual(errorCharsMax)
  expect(text).toMatch(/x…\n {4}at /)
})

const circular: { self?: unknown } = {}
circular.self = circular

test.each<[string, unknown, string | RegExp]>([
  ['nothing', undefined, 'undefined'],
  ['null', null, 'null'],
  ['a text', 'boom', 'boom'],
  ['a number', 7, '7'],
  ['a bigint', 7n, '7'],
  ['a symbol', Symbol('s'), 'Symbol(s)'],
  ['an object', { code: 7 }, '{"code":7}'],
  ['a circle', circular, '[object Object]'],
  [
    'an object with a throwing getter',
    Object.defineProperty({}, 'a', { get: throws, enumerable: true }),
    '[object Object]',
  ],
  ['an object with a throwing tag', { toJSON: throws, get [Symbol.toStringTag]() { return throws() } }, /cannot be read/], // biome-ignore format: one line per case
  ['an object whose toJSON returns nothing', { toJSON: () => undefined }, '[object Object]'],
  ['a function', throws, /throw new Error/],
  ['a proxy that traps everything', new Proxy({}, { get: throws, getPrototypeOf: throws }), /cannot be read/],
  ['an error without a message', new Error(), /^Error\n {4}at /],
  ['an error without a stack', Object.assign(new Error('x'), { stack: undefined }), 'Error: x'],
  [
    'an error with a throwing message',
    Object.defineProperty(new Error('x'), 'message', { get: throws }),
    /^Error: its message/,
  ],
  [
    'an error with a throwing stack',
    Object.defineProperty(new Error('x'), 'stack', { get: throws }),
    'Error: x',
  ],
  [
    'an error with a throwing cause',
    Object.defineProperty(new Error('x'), 'cause', { get: throws }),
    /^Error: x\n/,
  ],
  ['NUL and lone surrogates', 'a\0b\ud800c\udc00😀', 'a\uFFFDb\uFFFDc\uFFFD😀'],
])('%s can be told', (_, thrown, text) => {
  if (typeof text === 'string') expect(describeError(thrown)).toBe(text)
  else expect(describeError(thrown)).toMatch(text)
})

test('whatever is thrown becomes text that PostgreSQL can store', () => {
  const message = fc.string({ unit: 'binary', maxLength: 5000, size: 'medium' })
  const error = fc.tuple(message, fc.anything()).map(([message, cause]) => new Error(message, { cause }))
  fc.assert(
    fc.property(
      fc.oneof(fc.anything({ withBigInt: true, withNullPrototype: true }), message, error),
      (thrown) => {
        const text = describeError(thrown)
        expect(text.length).toBeLessThanOrEqual(errorCharsMax)
        expect(text).not.toMatch(/[\0\p{Surrogate}]/u)
      },
    ),
  )
})
