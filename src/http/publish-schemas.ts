import { z } from 'zod'
import { typePattern, w3cTraceparent } from '../domain/event.ts'
import {
  answerObject,
  between,
  bodyObject,
  event,
  json,
  named,
  sourceFields,
  tagsIn,
  text,
  time,
} from './schemas.ts'

/**
 * What publishers send, and what they get back. These schemas only document: the bytes are stored unchanged, and
 * domain/event.ts checks them.
 */

const optionalTime = time.nullable().optional()
const type = z.string().regex(typePattern).nullable().optional()
const key = text(255).nullable().optional()

const commonFields = {
  title: text(500).nullable().optional(),
  description: text(10_000, 0).nullable().optional(),
  tags: tagsIn
    .nullable()
    .optional()
    .describe('`"a,b"` or `["a","b"]`. An event with tags is also work: it goes once to the work queue.'),
  payload: json,
  ordering_key: key.describe('Events with the same key are delivered one after the other.'),
  concurrency_key: key,
  version: text(100).nullable().optional(),
  source: z.strictObject(sourceFields).nullable().optional(),
  timestamp: optionalTime,
  correlation_id: key,
  causation_id: key,
  traceparent: z.string().regex(w3cTraceparent).nullable().optional(),
  run_at: optionalTime,
  expires_at: optionalTime,
  max_retries: between(1, 1000).nullable().optional(),
  require_route: z.boolean().nullable().optional(),
  idempotency_key: key,
  attributes: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .nullable()
    .optional()
    .describe('Further attributes of the event as a CloudEvent: up to 64,000 characters of JSON.'),
}

/** Other names that publishers may use for the same fields. */
const otherNames = {
  event_type: type.describe('Another name for `type`.'),
  name: type.describe('Another name for `type`.'),
  pattern: type.describe('Another name for `type`.'),
  group_id: key.describe('Another name for `ordering_key`.'),
  eventId: key.describe('Another name for `idempotency_key`.'),
  metadata: z
    .strictObject({
      correlationId: key,
      causationId: key,
      traceId: z.string().nullable().optional().describe('Stored as the attribute `traceid`.'),
      retryCount: z.unknown().optional(),
      lastError: z.string().nullable().optional().describe('Stored as the attribute `lasterror`.'),
      lastErrorTime: z.string().nullable().optional().describe('Stored as the attribute `lasterrortime`.'),
      processingStartTime: z.unknown().optional(),
    })
    .nullable()
    .optional()
    .describe(
      'How the event was processed elsewhere. Only the ids, the trace and the last error are stored.',
    ),
}

export const newEvent = bodyObject(
  'NewEvent',
  { type, ...commonFields, ...otherNames },
  'Needs a type, or a title and tags. Two names for the same field must have the same value, and `run_at` must be before `expires_at`.',
)

/** Attributes that are not listed here are stored unchanged. */
export const cloudEvent = named(
  'CloudEvent',
  z
    .object({
      specversion: z.literal('1.0'),
      id: text(4096),
      source: text(4096),
      type: z.string().regex(typePattern),
      subject: text(4096).nullable().optional(),
      time: optionalTime,
      partitionkey: key.describe('The ordering key of the event.'),
      expirytime: optionalTime,
      traceparent: z.string().regex(w3cTraceparent).nullable().optional(),
      data: json.optional(),
      data_base64: z
        .string()
        .meta({ pattern: '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' })
        .nullable()
        .optional()
        .describe('The data as base64, instead of `data`.'),
    })
    .catchall(z.union([text(4096, 0), z.number(), z.boolean(), z.null()]))
    .describe(
      'An event of CloudEvents 1.0, with up to 50 attributes; their names are lower case letters and digits. `leasetoken`, `leaseexpires`, `attempt`, `retrycount` and `subscription` are refused, since Posthorn sets them on a leased CloudEvent.',
    ),
)
export const cloudEvents = z.array(cloudEvent).min(1).max(1000)

export const batch = bodyObject('Batch', { events: z.array(newEvent).min(1).max(1000) })

export const storedEvent = answerObject('StoredEvent', {
  ...event.shape,
  durability: z
    .literal('durable')
    .describe('The event outlives a crash. An event that only a memory queue would receive is refused.'),
})

export const storedBatch = answerObject('StoredBatch', { events: z.array(storedEvent) })
