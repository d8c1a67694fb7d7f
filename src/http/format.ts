import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { toBatch, toBinary, toStructured } from '../cloudevents/write.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import type { Answer } from './route.ts'
import { named } from './schemas.ts'

export const format = z
  .enum(['json', 'cloudevents', 'cloudevents-binary'])
  .optional()
  .describe(
    'The format of the answer. `cloudevents` is the same as `Accept: application/cloudevents+json`; `cloudevents-binary` puts the attributes into headers.',
  )

/** The attributes that every CloudEvent has. */
export const cloudEventOut = named(
  'CloudEventOut',
  z.looseObject({
    specversion: z.literal('1.0'),
    id: z.string(),
    source: z.string(),
    type: z.string(),
    time: z.string(),
    posthornid: z.string().describe('The id that Posthorn gave the event.'),
  }),
)

export type Format = NonNullable<z.output<typeof format>>

/** The format that the query names, or else the Accept header. */
export function formatOf({ headers }: FastifyRequest, asked: Format | undefined): Format {
  return asked ?? (headers.accept?.includes('application/cloudevents') === true ? 'cloudevents' : 'json')
}

/** One event as a CloudEvent, with `extra` as further attributes. */
export function cloudEvent(
  event: StoredEvent,
  {
    format,
    extra = {},
  }: { format: Exclude<Format, 'json'>; extra?: Record<string, string | number | boolean> },
): Answer {
  if (format === 'cloudevents') {
    return {
      status: 200,
      text: toStructured(event, extra),
      contentType: 'application/cloudevents+json; charset=utf-8',
    }
  }
  const { headers, body } = toBinary(event, extra)
  const { 'content-type': contentType = 'application/octet-stream', ...attributes } = headers
  // An event without data has no content type.
  if (body === '' && headers['content-type'] === undefined) return { status: 200, headers: attributes }
  return { status: 200, text: body, contentType, headers: attributes }
}

export function cloudEventBatch(texts: readonly string[]): Answer {
  return {
    status: 200,
    text: toBatch(texts),
    contentType: 'application/cloudevents-batch+json; charset=utf-8',
  }
}
