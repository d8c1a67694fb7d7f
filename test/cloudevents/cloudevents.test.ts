import { CloudEvent, HTTP, type Message } from 'cloudevents'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CloudEventIn, isCloudEvent, readCloudEvent } from '../../src/cloudevents/read.ts'
import { type BinaryCloudEvent, toBatch, toBinary, toStructured } from '../../src/cloudevents/write.ts'
import { parseEvent } from '../../src/domain/event.ts'
import {
  batchType,
  check,
  parts,
  readBatch,
  required,
  storableText,
  store,
  structuredType,
  traceparent,
} from './cloudevents.ts'

describe('a CloudEvent that the official SDK writes', () => {
  test('is read in structured form', () => {
    check(
      fc.property(cloudEvent, (event) =>
        expectRead(readMessage(HTTP.structured(event)), event, (value) => value),
      ),
    )
  })

  test('is read in binary form, its attributes as texts', () => {
    check(
      fc.property(cloudEvent, (event) => expectRead(readMessage(encoded(HTTP.binary(event))), event, String)),
    )
  })

  test('is read in a batch, in order', () => {
    check(
      fc.property(fc.array(cloudEvent, { maxLength: 5 }), (events) => {
        const read = readBatch(JSON.stringify(events))
        expect(read).toHaveLength(events.length)
        events.forEach(
          (event, index) => void expectRead(read[index] as CloudEventIn, event, (value) => value),
        )
      }),
    )
  })

  test('is read when its data is binary or text, in both forms', () => {
    check(
      fc.property(
        fc.uint8Array({ minLength: 1 }),
        fc.string({ unit: 'binary', minLength: 1 }),
        (bytes, text) => {
          const binary = new CloudEvent({
            ...required,
            datacontenttype: 'image/png',
            data: Buffer.from(bytes),
          })
          for (const message of [HTTP.structured(binary), HTTP.binary(binary)]) {
            const { payloadText, attributes } = readMessage(message)
            expect(Buffer.from(JSON.parse(payloadText), 'base64')).toEqual(Buffer.from(bytes))
            expect(attributes).toMatchObject({ datacontenttype: 'image/png', database64: true })
          }
          const plain = new CloudEvent({ ...required, datacontenttype: 'text/plain', data: text })
          for (const message of [HTTP.structured(plain), HTTP.binary(plain)]) {
            const { payloadText, attributes } = readMessage(message)
            expect(JSON.parse(payloadText)).toBe(text)
            expect(attributes).not.toHaveProperty('database64')
          }
        },
      ),
    )
  })

  test('without data has the payload null, in both forms', () => {
    const event = new CloudEvent(required)
    expect(readMessage(HTTP.structured(event)).payloadText).toBe('null')
    expect(readMessage(HTTP.binary(event)).payloadText).toBe('null')
  })
})

describe('what we write, the official SDK reads as the same CloudEvent', () => {
  test('in structured form', () => {
    check(
      fc.property(cloudEvent, (event) => {
        const body = toStructured(store(readMessage(HTTP.structured(event))))
        const read = HTTP.toEvent({ headers: { 'content-type': structuredType }, body }) as CloudEvent
        expect(read.validate()).toBe(true)
        expect(read.toJSON()).toEqual({ ...event.toJSON(), posthornid: '812' })
      }),
    )
  })

  test('in binary form', () => {
    check(
      fc.property(cloudEvent, (event) => {
        const read = readBySdk(toBinary(store(readMessage(HTTP.structured(event)))))
        const { data, datacontenttype = 'application/json', ...attributes } = event.toJSON()
        const texts = Object.fromEntries(
          Object.entries(attributes).flatMap(([name, value]) =>
            value === undefined ? [] : [[name, String(value)]],
          ),
        )
        expect(read.validate()).toBe(true)
        expect(read.toJSON()).toEqual({ ...texts, posthornid: '812', data, datacontenttype })
      }),
    )
  })

  test('in a batch', () => {
    check(
      fc.property(fc.array(cloudEvent, { maxLength: 5 }), (events) => {
        const body = toBatch(events.map((event) => toStructured(store(readMessage(HTTP.structured(event))))))
        const read = HTTP.toEvent({ headers: { 'content-type': batchType }, body }) as CloudEvent[]
        expect(read.map((event) => event.toJSON())).toEqual(
          events.map((event) => ({ ...event.toJSON(), posthornid: '812' })),
        )
      }),
    )
  })

  test('when its data is binary', () => {
    check(
      fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
        const event = new CloudEvent({ ...required, datacontenttype: 'image/png', data: Buffer.from(bytes) })
        const stored = store(readMessage(HTTP.binary(event)))
        const structured = { headers: { 'content-type': structuredType }, body: toStructured(stored) }
        for (const read of [HTTP.toEvent(structured) as CloudEvent, readBySdk(toBinary(stored))]) {
          expect(read.data_base64).toBe(Buffer.from(bytes).toString('base64'))
          expect(read.datacontenttype).toBe('image/png')
        }
      }),
    )
  })

  test('when it never was a CloudEvent', () => {
    const event = store({
      type: 'order.created',
      title: 'An order',
      payload: { n: 1 },
      orderingKey: 'order-7',
      correlationId: 'c-1',
      causationId: 'c-0',
      expiresAt: '2027-01-01T00:00:00Z',
      traceparent,
    })
    const expected = {
      specversion: '1.0',
      id: '812',
      source: '/posthorn',
      type: 'order.created',
      subject: 'An order',
      time: '2026-01-02T00:00:00.000Z',
      partitionkey: 'order-7',
      correlationid: 'c-1',
      causationid: 'c-0',
      expirytime: '2027-01-01T00:00:00.000Z',
      traceparent,
      posthornid: '812',
      leasetoken: 't-1',
      data: { n: 1 },
    }
    const body = toStructured(event, { leasetoken: 't-1' })
    const read = HTTP.toEvent({ headers: { 'content-type': structuredType }, body }) as CloudEvent
    expect(read.validate()).toBe(true)
    expect(read.toJSON()).toEqual(expected)
    expect(readBySdk(toBinary(event, { leasetoken: 't-1' })).toJSON()).toEqual({
      ...expected,
      datacontenttype: 'application/json',
    })
  })

  test('when it is work without a type', () => {
    const event = store({
      title: 'Paint it',
      tags: 'paint',
      payload: null,
      timestamp: '2026-01-01T10:00:00+02:00',
    })
    expect(JSON.parse(toStructured(event))).toEqual({
      specversion: '1.0',
      id: '812',
      source: '/posthorn',
      type: 'posthorn.work',
      subject: 'Paint it',
      time: '2026-01-01T08:00:00.000Z',
      posthornid: '812',
      data: null,
    })
  })
})

/** Neither bodies nor header values that the SDK makes are always texts. */
function readMessage({ headers, body }: Message): CloudEventIn {
  const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  expect(isCloudEvent(texts)).toBe(texts['ce-id'] === undefined ? 'structured' : 'binary')
  return readCloudEvent(parts(texts, (body ?? '') as string))
}

/** The SDK leaves percent-encoding to others: the language's own does more of it than is asked for. */
function encoded({ headers, body }: Message): Message {
  const isCe = (name: string) => name.startsWith('ce-')
  const all = Object.entries(headers).map(([name, value]) => [
    name,
    isCe(name) ? encodeURIComponent(String(value)) : value,
  ])
  return { headers: Object.fromEntries(all), body }
}

function readBySdk({ headers, body }: BinaryCloudEvent): CloudEvent {
  const decoded = Object.entries(headers).map(([name, value]) => [
    name,
    name.startsWith('ce-') ? decodeURIComponent(value) : value,
  ])
  return HTTP.toEvent({ headers: Object.fromEntries(decoded), body }) as CloudEvent
}

function expectRead(read: CloudEventIn, event: CloudEvent, form: (value: unknown) => unknown): void {
  const { specversion, type, time, data, partitionkey, ...others } = event.toJSON()
  expect(specversion).toBe('1.0')
  expect(read.type).toBe(type)
  expect(read.timestamp).toBe(time)
  expect(read.orderingKey ?? undefined).toBe(partitionkey)
  expect(JSON.parse(read.payloadText)).toEqual(data)
  for (const [name, value] of Object.entries(others)) {
    if (value !== undefined) expect(read.attributes[name], name).toBe(form(value))
  }
  expect(() => parseEvent(read)).not.toThrow()
}

/**
 * Data is an object or an array: the SDK drops data that is false or 0, reads the number 1 of a binary body
 * as the text 1, and writes a text without its quotes.
 */
const cloudEvent: fc.Arbitrary<CloudEvent> = fc
  .record(
    {
      id: storableText,
      source: fc.webPath().map((path) => path || '/'),
      type: fc.stringMatching(/^[a-z0-9_.:-]{1,30}$/),
      time: fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }),
      subject: storableText,
      partitionkey: storableText,
      dataschema: fc.webUrl(),
      extensions: fc.dictionary(
        fc.stringMatching(/^x[a-z0-9]{0,19}$/),
        fc.oneof(storableText, fc.integer(), fc.boolean()),
      ),
      data: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue())),
    },
    { requiredKeys: ['id', 'source', 'type', 'time', 'extensions', 'data'], noNullPrototype: true },
  )
  .map(({ time, extensions, data, ...others }) => {
    const plain = JSON.parse(JSON.stringify(data)) // -0 has no JSON form
    return new CloudEvent<unknown>({
      ...others,
      ...extensions,
      time: time.toISOString(),
      data: plain,
    }) as CloudEvent
  })
