import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type EventInput, type NewEvent, parseEvent } from '../../src/domain/event.ts'
import { storedEvent } from '../../src/domain/stored-event.ts'

const parse = (fields: object): NewEvent =>
  parseEvent({ type: 'a.b', payload: null, ...fields } as EventInput)
const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

test('an event gets every field, absent ones as null, and is frozen', () => {
  const event = parseEvent({ type: 'order.created', payload: { id: 7 } })
  expect(event).toEqual({
    type: 'order.created',
    title: null,
    description: null,
    tags: null,
    payloadText: '{"id":7}',
    orderingKey: null,
    concurrencyKey: null,
    version: null,
    source: null,
    timestamp: null,
    correlationId: null,
    causationId: null,
    traceparent: null,
    runAt: null,
    expiresAt: null,
    maxRetries: null,
    idempotencyKey: null,
    requireRoute: null,
    idempotencyScope: '',
    idempotencyFingerprint: null,
    attributes: null,
  })
  expect(Object.isFrozen(event)).toBe(true)
})

test('given fields are kept, times are put into UTC, tags into a list', () => {
  const given = {
    title: 'T',
    description: '',
    orderingKey: 'k',
    concurrencyKey: 'c',
    version: '1.0.0',
    correlationId: 'x',
    causationId: 'y',
    traceparent,
    maxRetries: 3,
    idempotencyKey: 'i',
    requireRoute: false,
  }
  const times = {
    timestamp: new Date(0),
    runAt: '2024-03-15T10:00:00+02:00',
    expiresAt: '2024-03-15T10:00:00.5Z',
  }
  expect(parse({ ...given, ...times, tags: 'a, b', source: { id: '7' } })).toMatchObject({
    ...given,
    timestamp: '1970-01-01T00:00:00.000Z',
    runAt: '2024-03-15T08:00:00.000Z',
    expiresAt: '2024-03-15T10:00:00.500Z',
    tags: ['a', 'b'],
    source: { type: null, id: '7', name: null },
  })
})

test('null counts as absent', () => {
  expect(parse({ title: null, tags: null, source: null, runAt: null, maxRetries: null })).toEqual(parse({}))
  expect(parse({ source: {} }).source).toBeNull()
})

describe('a field out of bounds is refused by name', () => {
  test.each<[string, object, string?]>([
    ['an empty type', { type: '' }],
    ['a type with a blank', { type: 'a b' }],
    ['a type with a star', { type: 'a.*' }],
    ['a type of 101 characters', { type: 'x'.repeat(101) }],
    ['a type that ends in a line break', { type: 'a\n' }],
    ['a type that is a number', { type: 7 }],
    ['an empty title', { title: '' }],
    ['a title with NUL', { title: 'a\0b' }],
    ['a title with a lone surrogate', { title: 'a\ud800b' }],
    ['a title that is a bigint', { title: 10n }],
    ['a long description', { description: 'x'.repeat(10_001) }],
    ['an empty ordering key', { orderingKey: '' }],
    ['an ordering key of 256 characters', { orderingKey: 'x'.repeat(256) }],
    ['an ordering key that is a number', { orderingKey: 7 }],
    ['an empty concurrency key', { concurrencyKey: '' }],
    ['a version that is a number', { version: 1 }],
    ['a source that is text', { source: 'me' }],
    ['a source id with NUL', { source: { id: '\0' } }, 'source.id'],
    ['a correlation id with NUL', { correlationId: '\0' }],
    ['an empty causation id', { causationId: '' }],
    ['a traceparent in capitals', { traceparent: traceparent.toUpperCase() }],
    ['a traceparent of zeros', { traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` }],
    ['a traceparent of version ff', { traceparent: `ff${traceparent.slice(2)}` }],
    ['a timestamp that is a number', { timestamp: 0 }],
    ['a time without an offset', { runAt: '2024-03-15T10:00:00' }],
    ['a date', { runAt: '2024-03-15' }],
    ['February 30', { runAt: '2024-02-30T00:00:00Z' }],
    ['a 13th month', { runAt: '2024-13-01T00:00:00Z' }],
    ['an invalid Date', { runAt: new Date(Number.NaN) }],
    ['the year 10000', { expiresAt: new Date(253402300800000) }],
    ['the year 0', { expiresAt: '0000-01-01T00:00:00Z' }],
    ['zero retries', { maxRetries: 0 }],
    ['1001 retries', { maxRetries: 1001 }],
    ['half a retry', { maxRetries: 1.5 }],
    ['retries as text', { maxRetries: '3' }],
    ['an empty idempotency key', { idempotencyKey: '' }],
    ['a flag as text', { requireRoute: 'yes' }],
    ['33 tags', { tags: Array.from({ length: 33 }, (_, i) => `t${i}`) }],
    ['a payload left out', { payload: undefined }],
    ['a payload given twice', { payload: 1, payloadText: '1' }],
    ['a payload text that is no text', { payload: undefined, payloadText: 7 }, 'payloadText'],
  ])('%s', (_, fields, field = Object.keys(fields)[0]) => {
    expect(() => parse(fields)).toThrow(
      expect.objectContaining({ code: 'BAD_EVENT', details: expect.objectContaining({ field }) }),
    )
  })
})

test('what is not an object is no event', () => {
  expect(() => parseEvent(null as never)).toThrow('Expected the event to be an object, got null.')
})

test('an event needs a type or a title, and a type or tags', () => {
  expect(() => parseEvent({ tags: 'a', payload: 1 })).toThrow('no title')
  expect(() => parseEvent({ title: 'T', payload: 1 })).toThrow('no tags')
  expect(() => parseEvent({ title: 'T', tags: [], payload: 1 })).toThrow('no tags')
  expect(parseEvent({ title: 'T', tags: 'a', payload: 1 }).type).toBeNull()
})

test('an event must be able to run before it expires', () => {
  const runAt = '2024-01-01T12:00:00Z'
  expect(() => parse({ runAt, expiresAt: runAt })).toThrow('before expiresAt')
  expect(() => parse({ runAt, expiresAt: '2024-01-01T13:00:00+02:00' })).toThrow('before expiresAt')
  expect(parse({ runAt, expiresAt: '2024-01-01T12:00:00.001Z' }).runAt).toBe('2024-01-01T12:00:00.000Z')
})

test('bounds are inclusive', () => {
  const key = 'ä'.repeat(255)
  expect(
    parse({ orderingKey: key, idempotencyKey: key, maxRetries: 1000, type: 'x'.repeat(100) }),
  ).toMatchObject({
    orderingKey: key,
    maxRetries: 1000,
  })
})

test('a stored event parses its payload when it is first read, once', () => {
  const core = { id: 7, type: 'a.b', orderingKey: null, createdAtMs: 0, payloadText: '{"a":[1]}' }
  const event = storedEvent(core)
  expect(event).toMatchObject({
    id: 7,
    type: 'a.b',
    payloadText: '{"a":[1]}',
    createdAt: new Date(0),
    title: null,
  })
  expect(event.payload).toEqual({ a: [1] })
  expect(event.payload).toBe(event.payload)
  expect(storedEvent({ ...core, payloadText: 'null' }).payload).toBeNull()
  expect(() => storedEvent({ ...core, payloadText: 'broken' })).not.toThrow()
  expect(JSON.parse(JSON.stringify(event))).toMatchObject({ id: 7, payload: { a: [1] }, tags: null })
})

test('whatever is passed, the answer is an event or an error of the table', () => {
  fc.assert(
    fc.property(fc.record(anyFields, { requiredKeys: [] }), (fields) => {
      try {
        const event = parseEvent(fields as EventInput)
        expect(parseEvent({ ...event, payload: undefined, attributes: null })).toEqual({
          ...event,
          attributes: null,
        })
      } catch (error) {
        expect(error).toMatchObject({
          code: expect.stringMatching(/^(BAD_EVENT|BAD_PAYLOAD|PAYLOAD_TOO_LARGE)$/),
        })
      }
    }),
    { numRuns: 2000 },
  )
})

const text = fc.string({ unit: 'binary', maxLength: 5 })
const odd = fc.anything({ withBigInt: true, withDate: true, withNullPrototype: true })
const anyFields = {
  type: fc.oneof(fc.constant('a.b'), text),
  title: fc.oneof(text, odd),
  tags: fc.oneof(fc.array(text), text, odd),
  payload: odd,
  orderingKey: fc.oneof(text, odd),
  source: fc.oneof(fc.record({ id: text }), odd),
  runAt: fc.oneof(fc.date({ noInvalidDate: false }), odd),
  expiresAt: fc.oneof(fc.date({ noInvalidDate: false }), odd),
  maxRetries: fc.oneof(fc.integer(), odd),
}
