import { z } from 'zod'
import { deliveryStatuses } from '../domain/delivery-status.ts'
import { searchedList } from './list-schemas.ts'
import { eventId, moment, named, text, time, whole } from './schemas.ts'

/** A subscriber's id, or its name. */
export const subscriberRef = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,100}$/)
  .describe('Its id, or its name.')
export const cursor = z
  .string()
  .max(2000)
  .describe('From `next_cursor`: goes on where a page ended, however deep.')

export const deliveryQuery = z.strictObject({
  event_id: eventId.optional(),
  subscriber: subscriberRef.optional(),
  status: z.enum(deliveryStatuses).optional(),
  picked_before: moment()
    .optional()
    .describe('Only attempts under way that a worker picked before: `status` is then `delivering`.'),
  limit: whole(1, 1000).optional(),
  offset: whole(0, 10_000).optional(),
  order: z.enum(['asc', 'desc']).optional().describe('By event, then by subscriber.'),
  cursor: cursor.optional(),
})

const deliveryFields = {
  id: z.uuid().describe('Of a webhook its `webhook-id`.'),
  event_id: z.int(),
  event_type: z.string().nullable(),
  subscriber_id: z.uuid(),
  subscriber: z.string(),
  via: z.enum(['handler', 'pull', 'webhook']),
  status: z
    .enum(deliveryStatuses)
    .describe(
      'As in the view `messages`, which has `expired` among `dlq`. `failed` waits for another attempt; `pending` for its first.',
    ),
  attempt_count: z.int().describe('Begun so far, one under way included.'),
  failures: z.int(),
  next_try_at: time.nullable(),
  worker_id: z.string().nullable().describe('Who has it, or had it last.'),
  lastError: z.string().nullable(),
  lastErrorTime: time.nullable(),
  processingStartTime: time.nullable().describe('Since when it is under way; null: it is not.'),
  created_at: time,
  updated_at: time,
}
export const listedDelivery = named('ListedDelivery', z.object(deliveryFields))
export const deliveryList = named(
  'DeliveryList',
  z.object({
    deliveries: z.array(listedDelivery),
    ...searchedList,
  }),
)

const headers = z.record(z.string(), z.unknown()).describe('What may be secret is `[hidden]`.')
const attempt = named(
  'DeliveryAttempt',
  z.object({
    number: z.int(),
    settlement: z
      .string()
      .describe('completed, retried, lease_expired, snoozed, released, reset, buried or cancelled.'),
    worker_id: z.string().nullable(),
    started_at: time.nullable(),
    finished_at: time,
    execution_ms: z.int().nullable(),
    status_code: z.int().nullable(),
    error_class: z.string().nullable(),
    error: z.string().nullable(),
    next_try_at: time.nullable(),
    request: z.looseObject({ url: z.string(), headers }).nullable().describe('Of webhooks.'),
    response: z
      .looseObject({ status: z.int().nullable(), headers, body: z.string().optional() })
      .nullable()
      .describe('Of webhooks; the first 16 KB of its body.'),
    timings: z.looseObject({}).nullable().describe('Of webhooks, in ms by phase.'),
  }),
)
export const deliveryDetails = named(
  'DeliveryDetails',
  z.object({
    ...deliveryFields,
    lane: z.object({ ordering_key: z.string(), sequence: z.int().nullable() }).nullable(),
    attempts: z.array(attempt).describe('Oldest first; of more than 100 the newest.'),
    attempts_truncated: z
      .literal(true)
      .optional()
      .describe('There were more than are shown; `attempt_count` says how many.'),
  }),
)
export const buryBody = named('Bury', z.strictObject({ reason: text(4000, 0).optional() }))
