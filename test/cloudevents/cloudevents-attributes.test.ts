import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CloudEventIn, isCloudEvent, readCloudEvent } from '../../src/cloudevents/read.ts'
import { toBinary, toStructured } from '../../src/cloudevents/write.ts'
import {
  check,
  readHeaders,
  readObject,
  readOut,
  required,
  storableText,
  store,
  traceparent,
  withoutPosthornId,
} from './cloudevents.ts'

describe('attributes', () => {
  test('that Posthorn has a field for become fields, and the others are kept', () => {
    const event = readObject({
      subject: 's',
      dataschema: 'https://shop.example/schema',
      datacontenttype: 'application/json',
      time: '2026-01-01T10:00:00+02:00',
      partitionkey: 'order-7',
      expirytime: '2027-01-01t00:00:00z',
      traceparent,
      tracestate: '',
      correlationid: 'c-1',
      causationid: 7,
      constructor: true,
      unset: null,
      data: {},
    })
    expect(event).toEqual({
      type: 'order.created',
      idempotencyKey: '["/shop","A-1"]',
      timestamp: '2026-01-01T10:00:00+02:00',
      orderingKey: 'order-7',
      expiresAt: '2027-01-01T00:00:00Z',
      traceparent,
      correlationId: 'c-1',
      causationId: null,
      payloadText: '{}',
      attributes: {
        id: 'A-1',
        source: '/shop',
        subject: 's',
        dataschema: 'https://shop.example/schema',
        datacontenttype: 'application/json',
        tracestate: '',
        correlationid: 'c-1',
        causationid: 7,
        constructor: true,
      },
    })
    expect(Object.getPrototypeOf(event.attributes)).toBeNull()
    expect(JSON.parse(toStructured(store(event)))).toMatchObject({
      constructor: true,
      causationid: 7,
      subject: 's',
    })
  })

  test('that are too long for a field of the same meaning are kept all the same', () => {
    const correlationid = 'c'.repeat(256)
    const event = readObject({ correlationid })
    expect(event.correlationId).toBeNull()
    expect(JSON.parse(toStructured(store(event)))).toMatchObject({ correlationid })
  })

  test('may be fifty, of 4,096 characters', () => {
    const many = Object.fromEntries(Array.from({ length: 46 }, (_, n) => [`x${n}`, n]))
    expect(readObject({ ...many, x0: 'x'.repeat(4096) }).attributes).toMatchObject({ x1: 1, x45: 45 })
  })

  test('give the idempotency key, hashed when it would be too long', () => {
    const id = 'i'.repeat(255 - '["/shop",""]'.length)
    expect(readObject({ id }).idempotencyKey).toBe(`["/shop","${id}"]`)
    expect(readObject({ id: `${id}i` }).idempotencyKey).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(readObject({ id: 'b","c', source: 'a' }).idempotencyKey).not.toBe(
      readObject({ id: 'c', source: 'a","b' }).idempotencyKey,
    )
  })

  test('a time finer than milliseconds goes out as it came', () => {
    const times = { time: '2026-01-01T10:00:00.123456789+02:00', expirytime: '2027-01-01t00:00:00.0001z' }
    expect(JSON.parse(toStructured(store(readObject(times))))).toMatchObject(times)
    const coarse = JSON.parse(toStructured(store(readObject({ time: '2026-01-01T10:00:00.120000+02:00' }))))
    expect(coarse.time).toBe('2026-01-01T08:00:00.120Z')
  })

  test('of Posthorn win over those of the same name that came in', () => {
    const read = readObject({ posthornid: '1', other: 'x' })
    const event = store({ ...read, attributes: { ...read.attributes, leasetoken: 'old' } })
    expect(JSON.parse(toStructured(event, { leasetoken: 'new', id: 'no', 'Bad-Name': 1 }))).toMatchObject({
      ...required,
      posthornid: '812',
      leasetoken: 'new',
      other: 'x',
    })
    expect(toStructured(event, { 'Bad-Name': 1 })).not.toContain('Bad-Name')
  })

  test('that were given by hand cannot make a broken CloudEvent', () => {
    const attributes = {
      ...{
        id: 5,
        source: 'x',
        data: 'd',
        specversion: '9',
        database64: true,
        nodata: true,
        datacontenttype: 'a\r\nb',
      },
      ...{ 'x\r\ny': 1, time: 'January 2, 2026 UTC' },
    }
    const event = store({ type: 'a', payload: 'not base64', attributes })
    expect(JSON.parse(toStructured(event))).toEqual({
      ...{ specversion: '1.0', id: '812', source: '/posthorn', type: 'a', posthornid: '812' },
      ...{ time: '2026-01-02T00:00:00.000Z', data: 'not base64' },
    })
    expect(toBinary(event)).toEqual({
      headers: {
        ...{ 'ce-specversion': '1.0', 'ce-id': '812', 'ce-source': '/posthorn', 'ce-type': 'a' },
        ...{
          'ce-posthornid': '812',
          'ce-time': '2026-01-02T00:00:00.000Z',
          'content-type': 'application/json',
        },
      },
      body: '"not base64"',
    })
  })
})

describe('header values', () => {
  test('of any text come back the same, and are printable ASCII on the way', () => {
    check(
      fc.property(storableText, (subject) => {
        const { headers, body } = toBinary(store(readObject({ subject, data: 1 })))
        expect(headers['ce-subject']).toMatch(/^[\x21-\x7e]+$/)
        expect(readOut({ headers, body }).attributes.subject).toBe(subject)
      }),
    )
  })

  test.each([
    ['Euro%20%E2%82%AC%20%F0%9F%98%80', 'Euro € 😀'],
    ['%e2%82%ac%41', '€A'],
    ['"Euro \\"%E2%82%AC\\""', 'Euro "€"'],
    ['50% of "this"', '50% of "this"'],
    ['%2541', '%41'],
    ['caf\xe9', 'café'],
    [Buffer.from('café €').toString('latin1'), 'café €'],
  ])('%j means %j', (header, text) => {
    expect(readHeaders({ 'ce-subject': header }).attributes.subject).toBe(text)
  })

  test('are written as the binding says', () => {
    const { headers } = toBinary(store(readObject({ subject: 'Euro € 😀 "100%"' })))
    expect(headers['ce-subject']).toBe('Euro%20%E2%82%AC%20%F0%9F%98%80%20%22100%25%22')
  })

  test('go over a real connection', async () => {
    const given = readObject({ subject: 'Zoë € 😀\n"%"', flag: true, count: 5, data: { ä: '€' } })
    const server = createServer(async (request, response) => {
      const body = await buffer(request)
      const { headers } = request
      response.end(
        JSON.stringify(readCloudEvent({ headers, contentType: headers['content-type'] ?? '', body })),
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { headers, body } = toBinary(store(given))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const answer = await fetch(url, { method: 'POST', headers, body: body as string }).finally(() =>
      server.close(),
    )
    expect(withoutPosthornId((await answer.json()) as CloudEventIn)).toEqual({
      ...given,
      timestamp: '2026-01-02T00:00:00.000Z',
      attributes: { ...given.attributes, flag: 'true', count: '5', datacontenttype: 'application/json' },
    })
  })
})

test.each<[string, IncomingHttpHeaders, ReturnType<typeof isCloudEvent>]>([
  ['structured', { 'content-type': 'application/cloudevents+json' }, 'structured'],
  [
    'structured, in capitals and with a charset',
    { 'content-type': 'Application/CloudEvents+JSON ;charset=x' },
    'structured',
  ],
  ['a batch', { 'content-type': 'application/cloudevents-batch+json; charset=utf-8' }, 'batch'],
  ['binary', { 'content-type': 'application/json', 'ce-specversion': '1.0' }, 'binary'],
  ['binary without a version', { 'ce-id': '1' }, 'binary'],
  ['plain JSON', { 'content-type': 'application/json' }, null],
  ['a format that is not known', { 'content-type': 'application/cloudevents+avro' }, null],
  ['nothing', {}, null],
])('%s is told apart', (_, headers, expected) => {
  expect(isCloudEvent(headers)).toBe(expected)
})
