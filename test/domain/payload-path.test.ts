import { expect, test } from 'vitest'
import { hasValues } from '../../src/domain/payload-path.ts'

test.each<[payload: string, path: string[], value: string, expected: boolean]>([
  ['{"a":"x"}', ['a'], 'x', true],
  ['{"a":"x"}', ['a'], '"x"', false],
  ['{"a":"42"}', ['a'], '42', true],
  ['{"a":42}', ['a'], '42', true],
  ['{"a":42}', ['a'], '042', false],
  ['{"a":42}', ['a'], '', false],
  ['{"a":0}', ['a'], '', false],
  ['{"a":1.50}', ['a'], '1.5', true],
  ['{"a":1.50}', ['a'], '1.50', true],
  ['{"a":12345678901234567891}', ['a'], '12345678901234567891', true],
  ['{"a":12345678901234567891}', ['a'], '12345678901234567892', false],
  ['{"a":1e400}', ['a'], '1e400', true],
  ['{"a":1e400}', ['a'], 'Infinity', false],
  ['{"a":true}', ['a'], 'true', true],
  ['{"a":null}', ['a'], 'null', true],
  ['{"a":"null"}', ['a'], 'null', true],
  ['{"a":{}}', ['a'], '[object Object]', false],
  ['{"a":[1,[2,"three"]]}', ['a', '1', '1'], 'three', true],
  ['{"a":[1,2]}', ['a', '01'], '2', false],
  ['{"a":[1,2]}', ['a', 'length'], '2', false],
  ['{"a":[1,2]}', ['a'], '1,2', false],
  ['{"a":"long"}', ['a', 'length'], '4', false],
  ['{"a":{"":7}}', ['a', ''], '7', true],
  ['{"a":1,"a":2}', ['a'], '2', true],
  ['{}', ['constructor', 'name'], 'Object', false],
  ['{}', ['toString'], '', false],
  ['"plain"', [], 'plain', true],
  ['"plain"', ['0'], 'p', false],
  ['null', ['a'], 'null', false],
  ['{broken', ['a'], '1', false],
  ['', [], '', false],
])('in %s the value at %j is %j: %j', (payload, path, value, expected) => {
  expect(hasValues(payload, [{ path, value }])).toBe(expected)
})

test('all values must be there', () => {
  const a = { path: ['a'], value: '1' }
  const b = { path: ['b'], value: '2' }
  expect(hasValues('{"a":1,"b":2}', [a, b])).toBe(true)
  expect(hasValues('{"a":1,"b":3}', [a, b])).toBe(false)
})
