import { z } from 'zod'
import { deliveryStatuses } from '../domain/delivery-status.ts'
import { searchedList } from './list-schemas.ts'
import { answerObject, bodyObject, cursorMeaning, eventId, moment, paging, text, time } from './schemas.ts'

export const subscriberRef = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,100}$/)
  .describe('The id or the name of the subscription.')
export const cursorCharsMax = 2000
export const cursor = z.string().max(cursorCharsMax).describe(cursorMeaning)

export const deliveryQuery = z.strictObject({
  event_id: eventId.optional(),
  subscriber: subscriberRef.optional(),
  status: z.enum(deliveryStatuses).optional(),
  picked_before: moment()
    .optional()
    .describe(
      'Only deliveries whose current attempt began before this time; `status` must be `delivering` then.',
    ),
  ...paging('By event, then by subscription.', { cursorCharsMax }),
})

const deliveryFields = {
  id: z.uuid().describe('The id of the delivery; webhooks carry it as `webhook-id`.'),
  event_id: z.int(),
  event_type: z.string().nullable(),
  subscriber_id: z.uuid(),
  subscriber: z.string(),
  via: z.enum(['handler', 'pull', 'webhook']),
  status: z
    .enum(deliveryStatuses)
    .describe(
      '`pending`: waits for its first attempt. `failed`: waits for another attempt. `dlq`: is a dead letter. The view `messages` counts `expired` as `dlq`.',
    ),
  attempt_count: z.int().describe('Attempts begun so far, with the one under way.'),
  failures: z.int(),
  next_try_at: time.nullable(),
  worker_id: z.string().nullable(),
  lastError: z.string().nullable(),
  lastErrorTime: time.nullable(),
  processingStartTime: time
    .nullable()
    .describe('When the current attempt began; null if no attempt is under way.'),
  created_at: time,
  updated_at: time,
}
export const listedDelivery = answerObject('ListedDelivery', deliveryFields)
export const deliveryList = answerObject('DeliveryList', {
  deliveries: z.array(listedDelivery),
  ...searchedList,
})

const headers = z
  .record(z.string(), z.unknown())
  .describe('The headers, by name; values that may be secret are shown as `[hidden]`.')
export const attempt = answerObject('DeliveryAttempt', {
  number: z.int(),
  settlement: z
    .string()
    .describe(
      'How the attempt ended: completed, retried, lease_expired, snoozed, released, reset, buried or cancelled.',
    ),
  worker_id: z.string().nullable(),
  started_at: time.nullable(),
  finished_at: time,
  execution_ms: z.int().nullable(),
  status_code: z.int().nullable(),
  error_class: z.string().nullable(),
  error: z.string().nullable(),
  next_try_at: time.nullable(),
  request: z.looseObject({ url: z.string(), headers }).nullable().describe('For webhooks: what was sent.'),
  response: z
    .looseObject({ status: z.int().nullable(), headers, body: z.string().optional() })
    .nullable()
    .describe('For webhooks: what the endpoint answered.'),
  timings: z.looseObject({}).nullable().describe('For webhooks: how long each phase took, in milliseconds.'),
})
export const deliveryDetails = answerObject('DeliveryDetails', {
  ...deliveryFields,
  lane: z.object({ ordering_key: z.string(), sequence: z.int().nullable() }).nullable(),
  attempts: z.array(attempt).describe('The attempts, oldest first; at most the newest 100.'),
  attempts_truncated: z
    .literal(true)
    .optional()
    .describe('True: there were more attempts than are shown; `attempt_count` says how many.'),
})
export const buryBody = bodyObject('Bury', { reason: text(4000, 0).optional() })
