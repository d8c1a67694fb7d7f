import { type IncomingHttpHeaders, validateHeaderName } from 'node:http'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCloudEvent, readCloudEventBatch } from '../../src/cloudevents/read.ts'
import { toBinary, toStructured } from '../../src/cloudevents/write.ts'
import { parseEvent } from '../../src/domain/event.ts'
import { PosthornError } from '../../src/errors.ts'
import {
  check,
  parts,
  readBatch,
  readHeaders,
  readObject,
  readText,
  required,
  store,
  structuredType,
} from './cloudevents.ts'

/** A good event with some characters gone or replaced. */
const damaged = fc
  .tuple(
    fc.constantFrom(
      JSON.stringify({
        ...required,
        time: '2026-01-01T00:00:00.1234Z',
        x: 5,
        y: true,
        data: { a: [1, '\\'] },
      }),
      JSON.stringify({
        ...required,
        datacontenttype: 'text/plain; charset=utf-8',
        data_base64: 'aGk=',
        z: 'ä\n',
      }),
    ),
    fc.array(
      fc.record({
        at: fc.nat(200),
        gone: fc.nat(8),
        put: fc.constantFrom('', '"', '\\', '{', ']', ',', ':', '\\u0000', '\\ud800', '\0', '9', 'null'),
      }),
      { maxLength: 3 },
    ),
  )
  .map(([text, changes]) =>
    changes.reduce((so, { at, gone, put }) => so.slice(0, at) + put + so.slice(at + gone), text),
  )

describe('what is wrong is named', () => {
  const long = 'x'.repeat(4097)
  const many = Object.fromEntries(Array.from({ length: 47 }, (_, n) => [`x${n}`, n]))
  test.each<[string, object, string, unknown]>([
    ...['leasetoken', 'leaseexpires', 'attempt', 'retrycount', 'subscription'].map(
      (name): [string, object, string, unknown] => [`${name}, which a lease has`, { [name]: 'x' }, name, 'x'],
    ),
    ['another version', { specversion: '0.3' }, 'specversion', '0.3'],
    ['no version', { specversion: null }, 'specversion', 'nothing'],
    ['no id', { id: undefined }, 'id', 'nothing'],
    ['an empty id', { id: '' }, 'id', ''],
    ['a number as id', { id: 5 }, 'id', 5],
    ['no source', { source: null }, 'source', 'nothing'],
    ['no type', { type: undefined }, 'type', 'nothing'],
    ['a type that cannot be one', { type: 'a b' }, 'type', 'a b'],
    ['a time without an offset', { time: '2026-01-01T00:00:00' }, 'time', '2026-01-01T00:00:00'],
    ['a time that is none', { time: 'now' }, 'time', 'now'],
    [
      'an expirytime that is none',
      { expirytime: '2026-02-30T00:00:00Z' },
      'expirytime',
      '2026-02-30T00:00:00Z',
    ],
    ['a key that is too long', { partitionkey: 'k'.repeat(256) }, 'partitionkey', 'k'.repeat(200)],
    ['a traceparent that is none', { traceparent: '00-1' }, 'traceparent', '00-1'],
    ['an empty subject', { subject: '' }, 'subject', ''],
    ['a datacontenttype that is none', { datacontenttype: 'a/b\r\nx: y' }, 'datacontenttype', 'a/b\r\nx: y'],
    ['a name in capitals', { orderId: 1 }, 'orderId', 'orderId'],
    ['a name with a line', { order_id: 1 }, 'order_id', 'order_id'],
    ['a name that is empty', { '': 1 }, '', ''],
    ['a name that is too long', { ['x'.repeat(65)]: 1 }, 'x'.repeat(65), 'x'.repeat(65)],
    ['a name that has another use', { database64: true }, 'database64', true],
    ['an object', { ext: { a: 1 } }, 'ext', '{"a":1}'],
    ['an array', { ext: [1] }, 'ext', '[1]'],
    ['a number that would change', { ext: 2 ** 53 }, 'ext', '9007199254740992'],
    ['text that is too long', { ext: long }, 'ext', long.slice(0, 200)],
    ['text that cannot be stored', { ext: 'a\0b' }, 'ext', 'a\0b'],
    ['half a surrogate pair', { ext: '\ud800' }, 'ext', '\ud800'],
    ['too many attributes', many, 'attributes', 51],
    ['two kinds of data', { data: 1, data_base64: 'aGk=' }, 'data_base64', 'aGk='],
    ['base64 that is none', { data_base64: 'aGk' }, 'data_base64', 'aGk'],
    ['base64 that is no text', { data_base64: 5 }, 'data_base64', 5],
  ])('%s', (_, event, field, value) => {
    const error = expect.objectContaining({
      code: 'BAD_EVENT',
      details: expect.objectContaining({ field, value }),
    })
    expect(() => readObject(event)).toThrow(error)
    const other = expect.objectContaining({
      details: expect.objectContaining({ field: `[1].${field}`, value }),
    })
    expect(() => readBatch(JSON.stringify([required, { ...required, ...event }]))).toThrow(other)
  })

  test.each<[string, IncomingHttpHeaders, string]>([
    ['bytes that are not UTF-8', { 'ce-subject': '%C0%A0' }, 'ce-subject'],
    ['an encoded NUL', { 'ce-subject': '%00' }, 'subject'],
    ['a name with a dash', { 'ce-order-id': '1' }, 'order-id'],
    ['data in a header', { 'ce-data': '1' }, 'data'],
    ['the content type twice', { 'ce-datacontenttype': 'a/b' }, 'ce-datacontenttype'],
    ['a content type that is none', { 'content-type': 'json' }, 'datacontenttype'],
    ['several values', { 'ce-subject': ['a', 'b'] as unknown as string }, 'ce-subject'],
    ['no id', { 'ce-id': undefined }, 'id'],
    ['an empty id', { 'ce-id': '' }, 'id'],
  ])('%s in binary form', (_, headers, field) => {
    expect(() => readHeaders(headers)).toThrow(
      expect.objectContaining({ code: 'BAD_EVENT', details: expect.objectContaining({ field }) }),
    )
  })

  test.each<[string, string]>([
    ['an array', '[]'],
    ['no JSON', '{"specversion":'],
    ['a value that is no JSON', '{"specversion":1.0.0}'],
    ['an attribute that is no value', '{"specversion":nul}'],
    ['a byte order mark', `\ufeff${JSON.stringify(required)}`],
  ])('%s instead of an event', (_, body) => {
    expect(() => readText(body)).toThrow(expect.objectContaining({ code: 'BAD_JSON' }))
  })

  test('an attribute that comes twice, and a prototype', () => {
    const twice = JSON.stringify(required).replace(/\}$/, ',"id":"B"}')
    expect(() => readText(twice)).toThrow(expect.objectContaining({ code: 'BAD_EVENT' }))
    const prototype = JSON.stringify(required).replace(/\}$/, ',"__proto__":"x"}')
    expect(() => readText(prototype)).toThrow('Expected __proto__ to be a name')
  })

  test('data that is not JSON is refused when it is published', () => {
    const broken = JSON.stringify(required).replace(/\}$/, ',"data":nope}')
    for (const event of [readText(broken), readHeaders({ 'content-type': 'application/json' }, '{')]) {
      expect(() => parseEvent(event)).toThrow(expect.objectContaining({ code: 'BAD_PAYLOAD' }))
    }
  })

  test('nothing but a PosthornError is thrown, whatever comes', () => {
    const bytes = fc.uint8Array({ maxLength: 40 }).map((some) => Buffer.from(some))
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('1.0', '%', '%ff', '"', '"\\', '', 'a'),
    )
    const names = [
      'ce-specversion',
      'ce-id',
      'ce-source',
      'ce-type',
      'ce-time',
      'ce-x',
      'ce-__proto__',
      'content-type',
    ]
    const headers = fc.dictionary(fc.constantFrom(...names), value)
    check(
      fc.property(damaged, bytes, headers, (text, body, some) => {
        for (const read of [
          () => [readText(text)],
          () => readBatch(`[${text}]`),
          () => [readCloudEvent(parts({ 'content-type': structuredType }, body))],
          () => readCloudEventBatch(parts({}, body)),
          () => [readCloudEvent(parts(some, body))],
          () => [readHeaders(some, body)],
        ]) {
          const events = orPosthornError(read)
          const stored = orPosthornError(() => events.map((event) => store(event)))
          for (const event of stored) {
            expect(() => JSON.parse(toStructured(event))).not.toThrow()
            for (const [name, value] of Object.entries(toBinary(event).headers)) {
              expect(() => validateHeaderName(name)).not.toThrow()
              expect(value).toMatch(/^[\x20-\x7e\t]*$/)
            }
          }
        }
      }),
      3000,
    )
  })
})

function orPosthornError<T>(read: () => T[]): T[] {
  try {
    return read()
  } catch (error) {
    expect(error).toBeInstanceOf(PosthornError)
    return []
  }
}
