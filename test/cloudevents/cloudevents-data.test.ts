import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toBinary, toStructured } from '../../src/cloudevents/write.ts'
import {
  check,
  readHeaders,
  readObject,
  readOut,
  readText,
  required,
  store,
  withoutPosthornId,
} from './cloudevents.ts'

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 3 })

/** JSON that would not survive being parsed and printed. */
const { value: jsonText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      ...['null', 'true', '12345678901234567890', '1e400', '-0.0', '1.10', '0', '{}', '[]', '""'],
      ...['"\\u0000"', '"\\ud800"', '"\\/"', '"ä€😀"', '"}],\\"\\\\"', '"__proto__"'],
    ),
    fc
      .tuple(space, fc.array(tie('value'), { maxLength: 4 }))
      .map(([gap, values]) => `[${gap}${values.join(`${gap},${gap}`)}${gap}]`),
    fc
      .tuple(
        space,
        fc.array(fc.tuple(fc.constantFrom('a', 'b', '__proto__', 'data'), tie('value')), { maxLength: 4 }),
      )
      .map(
        ([gap, members]) =>
          `{${gap}${members.map(([key, text]) => `"${key}"${gap}:${gap}${text}`).join(`${gap},`)}${gap}}`,
      ),
  ),
}))

describe('the bytes of the data are kept', () => {
  test('from structured form into both forms, and back', () => {
    check(
      fc.property(jsonText, space, (data, gap) => {
        const { specversion, id, source, type } = required
        const event = readText(
          `${gap}{"data":${gap}${data}${gap},"specversion":"${specversion}","id":"${id}","source":"${source}","type":"${type}"}${gap}`,
        )
        expect(event.payloadText).toBe(data)
        const stored = store(event)
        expect(toStructured(stored)).toContain(`"data":${data}}`)
        expect(toBinary(stored).body).toBe(data)
        expect(withoutPosthornId(readText(toStructured(stored)))).toEqual({
          ...event,
          timestamp: expect.any(String),
        })
      }),
    )
  })

  test('from binary form, with the space around them, into both forms and back', () => {
    check(
      fc.property(jsonText, space, space, (text, before, after) => {
        const body = before + text + after
        const event = readHeaders({ 'content-type': 'application/vnd.shop+json; v=2' }, body)
        expect(event.payloadText).toBe(body)
        const stored = store(event)
        expect(toBinary(stored)).toMatchObject({
          body,
          headers: { 'content-type': 'application/vnd.shop+json; v=2' },
        })
        expect(readOut(toBinary(stored)).payloadText).toBe(body)
        expect(readText(toStructured(stored)).payloadText).toBe(text)
      }),
    )
  })

  test('of any content type, byte for byte', () => {
    const type = fc.constantFrom(
      ...[
        'image/png',
        'application/xml',
        'text/plain',
        'text/csv; charset=UTF-8',
        'text/html; charset=latin1',
      ],
      ...['application/cloudevents+avro', 'TEXT/XML; charset="us-ascii"'],
    )
    check(
      fc.property(type, fc.uint8Array({ minLength: 1 }), (contentType, bytes) => {
        const { headers, body } = toBinary(store(readHeaders({ 'content-type': contentType }, bytes)))
        expect(headers['content-type']).toBe(contentType)
        expect(Buffer.from(body as string)).toEqual(Buffer.from(bytes))
      }),
    )
  })

  test('that came without a content type is JSON', () => {
    const event = readHeaders({}, ' {"a": 1.0}')
    expect(event.payloadText).toBe(' {"a": 1.0}')
    expect(event.attributes).toEqual({ id: 'A-1', source: '/shop' })
    expect(toBinary(store(event)).headers['content-type']).toBe('application/json')
  })

  test('text in another charset or with broken bytes is kept as base64', () => {
    const latin = readHeaders({ 'content-type': 'text/plain; charset=iso-8859-1' }, 'ok')
    expect(latin).toMatchObject({ payloadText: '"b2s="', attributes: { database64: true } })
    const broken = readHeaders({ 'content-type': 'text/plain' }, Buffer.of(0xe4))
    expect(broken).toMatchObject({ payloadText: '"5A=="', attributes: { database64: true } })
    const marked = readHeaders({ 'content-type': 'text/csv' }, '\ufeffä;ö')
    expect(JSON.parse(marked.payloadText)).toBe('\ufeffä;ö')
  })

  test('base64 keeps its escapes, and goes out as the bytes it stands for', () => {
    const event = readText(JSON.stringify(required).replace(/\}$/, ',"data_base64":"\\/\\u002b8="}'))
    expect(event).toMatchObject({ payloadText: '"\\/\\u002b8="', attributes: { database64: true } })
    expect(toStructured(store(event))).toContain('"data_base64":"\\/\\u002b8="}')
    expect(toBinary(store(event)).body).toEqual(Buffer.from('/+8=', 'base64'))
    expect(toBinary(store(event)).headers).not.toHaveProperty('content-type')
  })

  test('text under a content type that is not JSON goes out as the text', () => {
    const event = store(readObject({ datacontenttype: 'application/xml', data: '<much wow="xml"/>' }))
    expect(event.payloadText).toBe('"<much wow=\\"xml\\"/>"')
    expect(toBinary(event)).toMatchObject({
      body: '<much wow="xml"/>',
      headers: { 'content-type': 'application/xml' },
    })
  })

  test('no data and null are told apart', () => {
    const none = store(readObject({}))
    const nothing = store(readObject({ data: null }))
    expect([none.payloadText, nothing.payloadText]).toEqual(['null', 'null'])
    expect(JSON.parse(toStructured(none))).not.toHaveProperty('data')
    expect(JSON.parse(toStructured(nothing))).toHaveProperty('data', null)
    expect([toBinary(none).body, toBinary(nothing).body]).toEqual(['', 'null'])
    expect(toBinary(none).headers).not.toHaveProperty('content-type')
    expect(readObject({ data: null, data_base64: 'aGk=' }).payloadText).toBe('"aGk="')
    expect(readObject({ data: 1, data_base64: null }).payloadText).toBe('1')
  })
})
