import type { IncomingHttpHeaders } from 'node:http'
import fc from 'fast-check'
import { expect } from 'vitest'
import {
  type CloudEventIn,
  type RequestParts,
  readCloudEvent,
  readCloudEventBatch,
} from '../../src/cloudevents/read.ts'
import type { BinaryCloudEvent } from '../../src/cloudevents/write.ts'
import { type EventAttributes, type EventInput, parseEvent } from '../../src/domain/event.ts'
import { storedEvent } from '../../src/domain/stored-event.ts'

export const structuredType = 'application/cloudevents+json; charset=utf-8'
export const batchType = 'application/cloudevents-batch+json'
export const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01'
export const required = { specversion: '1.0', id: 'A-1', source: '/shop', type: 'order.created' }

export const parts = (headers: IncomingHttpHeaders, body: string | Uint8Array = ''): RequestParts => ({
  headers,
  contentType: headers['content-type'] ?? '',
  body: Buffer.from(body as string),
})
export const readText = (body: string) => readCloudEvent(parts({ 'content-type': structuredType }, body))
export const readBatch = (body: string) => readCloudEventBatch(parts({ 'content-type': batchType }, body))
export const readObject = (event: object) => readText(JSON.stringify({ ...required, ...event }))
export const readHeaders = (headers: IncomingHttpHeaders, body?: string | Uint8Array) =>
  readCloudEvent(
    parts(
      {
        'ce-specversion': '1.0',
        'ce-id': 'A-1',
        'ce-source': '/shop',
        'ce-type': 'order.created',
        ...headers,
      },
      body,
    ),
  )
export const readOut = ({ headers, body }: BinaryCloudEvent) => readCloudEvent(parts(headers, body))

/** The event as it is after the database: through parseEvent, the attributes through JSON. */
export function store(input: EventInput, id = 812) {
  const { payloadText, type, orderingKey, attributes, timestamp, runAt, expiresAt, ...others } =
    parseEvent(input)
  const date = (iso: string | null) => (iso === null ? null : new Date(iso))
  return storedEvent(
    { id, type, payloadText, orderingKey, createdAtMs: Date.UTC(2026, 0, 2) },
    {
      ...others,
      attributes: attributes === null ? null : (JSON.parse(attributes) as EventAttributes),
      timestamp: date(timestamp),
      runAt: date(runAt),
      expiresAt: date(expiresAt),
    },
  )
}

export function withoutPosthornId(event: CloudEventIn): CloudEventIn {
  const { posthornid, ...attributes } = event.attributes
  expect(posthornid).toBe('812')
  return { ...event, attributes }
}

export function check<T>(property: fc.IProperty<T>, numRuns = 300): void {
  fc.assert(property, { seed: 1_000_003, numRuns })
}

export const storableText = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 50 })
  .filter((text) => !text.includes('\0'))
