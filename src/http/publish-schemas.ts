import { z } from 'zod'
import { typePattern, w3cTraceparent } from '../domain/event.ts'
import { event, json, named, sourceFields, tagsIn, text, time } from './schemas.ts'

/**
 * What publishers send, and what they are answered. The bytes are kept as they came, so this only describes them:
 * domain/event.ts is what checks.
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
    .describe('`"a,b"` or `["a","b"]`: with tags it is work, owed once to the pull queue.'),
  payload: json,
  ordering_key: key.describe('Events with the same key are handled one after the other.'),
  concurrency_key: key,
  version: text(100).nullable().optional(),
  source: z.strictObject(sourceFields).nullable().optional(),
  timestamp: optionalTime,
  correlation_id: key,
  causation_id: key,
  traceparent: z.string().regex(w3cTraceparent).nullable().optional(),
  run_at: optionalTime.describe('Not before.'),
  expires_at: optionalTime.describe('Not after.'),
  max_retries: z.int().min(1).max(1000).nullable().optional(),
  require_route: z.boolean().nullable().optional(),
  idempotency_key: key,
  attributes: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .nullable()
    .optional()
    .describe('What a CloudEvent made of it has besides: up to 64,000 characters of JSON.'),
}

/** The names of the seeds. */
const otherNames = {
  event_type: type.describe('Another name of `type`.'),
  name: type.describe('Another name of `type`.'),
  pattern: type.describe('Another name of `type`.'),
  group_id: key.describe('Another name of `ordering_key`.'),
  eventId: key.describe('Another name of `idempotency_key`.'),
  metadata: z
    .strictObject({
      correlationId: key,
      causationId: key,
      traceId: z.string().nullable().optional().describe('Kept as the attribute `traceid`.'),
      retryCount: z.unknown().optional(),
      lastError: z.string().nullable().optional().describe('Kept as the attribute `lasterror`.'),
      lastErrorTime: z.string().nullable().optional().describe('Kept as the attribute `lasterrortime`.'),
      processingStartTime: z.unknown().optional(),
    })
    .nullable()
    .optional()
    .describe('How an event was worked on before it came here is not kept.'),
}

export const newEvent = named(
  'NewEvent',
  z
    .strictObject({ type, ...commonFields, ...otherNames })
    .describe(
      'Needs a type, or a title and tags. Two names for one thing say the same, and `run_at` is before `expires_at`.',
    ),
)

/** Attributes that have no line here are kept as they are. */
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
      partitionkey: key.describe('The ordering key.'),
      expirytime: optionalTime,
      traceparent: z.string().regex(w3cTraceparent).nullable().optional(),
      data: json.optional(),
      data_base64: z
        .string()
        .meta({ pattern: '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' })
        .nullable()
        .optional()
        .describe('Instead of `data`.'),
    })
    .catchall(z.union([text(4096, 0), z.number(), z.boolean(), z.null()]))
    .describe(
      'As CloudEvents 1.0 has it, with up to 50 attributes, whose names are lower case letters and digits. `leasetoken`, `leaseexpires`, `attempt`, `retrycount` and `subscription` are refused: a leased CloudEvent has its own.',
    ),
)
export const cloudEvents = z.array(cloudEvent).min(1).max(1000)

export const batch = named('Batch', z.strictObject({ events: z.array(newEvent).min(1).max(1000) }))

export const storedEvent = named(
  'StoredEvent',
  event.extend({
    durability: z
      .literal('durable')
      .describe('It outlives a crash. What only a queue in memory is owed is refused here.'),
  }),
)

export const storedBatch = named('StoredBatch', z.object({ events: z.array(storedEvent) }))
