import { expect, test } from 'vitest'
import { decodeUtf8, parseMember, readElements, readMembers } from '../../src/domain/json-members.ts'

/** JSON taken apart one level deep, every value left as the text it was. */

const refusal = (reason: string) => expect.objectContaining({ message: expect.stringContaining(reason) })

test('members come in order, with the exact text of their values', () => {
  const text = ' { "b" : [1 , {"x":"}"}] , "a":"\\"]," ,\t"\\u0063":1e400\r\n} '
  expect(readMembers(text, 'it')).toEqual([
    { key: 'b', text: '[1 , {"x":"}"}]' },
    { key: 'a', text: '"\\"],"' },
    { key: 'c', text: '1e400' },
  ])
  expect(readMembers('{}', 'it')).toEqual([])
})

test('elements come in order, as they were', () => {
  expect(readElements('[ 1.0 ,"a,b", [ ] ,{"c":"\\\\"},null]', 'it')).toEqual([
    ...['1.0', '"a,b"', '[ ]', '{"c":"\\\\"}', 'null'],
  ])
  expect(readElements(' [ ] ', 'it')).toEqual([])
})

test('of more elements than may be only one more is read, so that what is too much costs nothing', () => {
  expect(readElements('[1,2,3,4]', 'it', 4)).toHaveLength(4)
  expect(readElements('[1,2,3,4,5,no JSON', 'it', 4)).toHaveLength(5)
})

test('nothing has more than a thousand members', () => {
  const object = (count: number) => `{${Array.from({ length: count }, (_, n) => `"${n}":0`).join(',')}}`
  expect(readMembers(object(1000), 'it')).toHaveLength(1000)
  expect(() => readMembers(object(1001), 'it')).toThrow(refusal('more than 1000 members'))
})

test('a name that comes twice is refused, however it is spelt', () => {
  expect(() => readMembers('{"a":1,"\\u0061":2}', 'it')).toThrow(refusal('given once'))
})

test.each([
  ['', 'not an object'],
  ['[]', 'not an object'],
  ['{', 'a name is expected'],
  ['{a:1}', 'a name is expected'],
  ['{"a"}', 'a colon is expected'],
  ['{"a":}', 'a value is expected'],
  ['{"a":1', 'a comma is expected'],
  ['{"a":1 "b":2}', 'a comma is expected'],
  ['{"a":[1', 'ends too early'],
  ['{"a":"x', 'ends within a text'],
  ['{"a":1}}', 'goes on after its end'],
  ['{"\\x":1}', 'is not JSON'],
])('%j is no object: %s', (text, reason) => {
  expect(() => readMembers(text, 'it')).toThrow(refusal(reason))
})

test('a value is checked only by whoever reads it', () => {
  const [member] = readMembers('{"a":nonsense}', 'it')
  expect(member).toEqual({ key: 'a', text: 'nonsense' })
  expect(() => parseMember(member as { key: string; text: string })).toThrow(refusal('the value of a'))
})

test('bytes that are not UTF-8, or begin with a mark, are no text', () => {
  expect(decodeUtf8(Buffer.from('"é😀"'))).toBe('"é😀"')
  expect(() => decodeUtf8(Uint8Array.from([0xff]))).toThrow(refusal('not UTF-8'))
  expect(() => decodeUtf8(Uint8Array.from([0xed, 0xa0, 0x80]))).toThrow(refusal('not UTF-8'))
  expect(() => decodeUtf8(Buffer.from('\ufeff{}'))).toThrow(refusal('byte order mark'))
})
