import { z } from 'zod'
import { formats } from '../domain/endpoint.ts'
import { conditionForm, pointerCharsMax, pointerForm } from '../domain/filter.ts'
import { rateMax, rateMin, webhookTimeoutMsRange } from '../domain/subscription.ts'
import { answerObject, between, bodyObject, pageFields, tagsIn, time, typeFilter } from './schemas.ts'

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], {
  error: 'a text, number, boolean or null',
})
const bound = z.number().optional()
const condition = z.union(
  [
    scalar,
    z.array(scalar).min(1).max(100),
    z
      .strictObject({
        exists: z.boolean().optional(),
        prefix: z.string().min(1).optional(),
        gt: bound,
        gte: bound,
        lt: bound,
        lte: bound,
      })
      .refine((given) => Object.keys(given).length > 0, { error: conditionForm })
      .meta({ minProperties: 1 }),
  ],
  { error: conditionForm },
)
const pointer = z.string().max(pointerCharsMax).regex(pointerForm)
const [timeoutMsMin, timeoutMsMax] = webhookTimeoutMsRange

function headersOf<Value extends z.ZodType>(value: Value) {
  return z
    .record(z.string().min(1).max(100), value)
    .refine((given) => Object.keys(given).length <= 50, { error: 'at most 50' })
    .meta({ maxProperties: 50 })
}

/** Fields that only webhooks have. */
const webhookFields = {
  url: z
    .string()
    .min(1)
    .max(2048)
    .describe(
      'The address that deliveries are sent to: http or https. The host must be public, unless POSTHORN_ALLOW_CIDRS allows it.',
    ),
  headers: headersOf(z.string().max(4096)).describe(
    'Sent with every delivery. Headers that frame or sign the request cannot be set. Values are stored encrypted, and shown as `[hidden]` unless `public_headers` names the header.',
  ),
  public_headers: z
    .array(z.string().min(1).max(100))
    .max(50)
    .describe('The headers whose values may be shown. To show a hidden header, send its value again.'),
  format: z.enum(formats).describe('How the body is built from the event.'),
  timeout_ms: between(timeoutMsMin, timeoutMsMax).describe(
    'How long one request may take in all, in milliseconds: name lookup, connection and answer.',
  ),
  outcomes: z
    .record(z.string().regex(/^([1-5]xx|[1-5][0-9][0-9])$/), z.enum(['deliver', 'retry', 'bury']))
    .refine((given) => Object.keys(given).length <= 100, { error: 'at most 100' })
    .meta({ maxProperties: 100 })
    .describe(
      'What HTTP statuses mean, where they mean something other than usual: `{"404": "retry", "5xx": "bury"}`.',
    ),
}

const subscriberFields = {
  name: z.string().regex(/^[A-Za-z0-9_.:-]{1,100}$/),
  event_types: z.array(typeFilter).max(1000),
  tags: tagsIn.nullable(),
  filter: z
    .record(pointer, condition)
    .refine((given) => Object.keys(given).length > 0 && Object.keys(given).length <= 20, {
      error: '1 to 20 conditions',
    })
    .meta({ minProperties: 1, maxProperties: 20 })
    .nullable()
    .describe(
      'Only events for which all of this holds, by JSON pointer into the event: a value, a list of values of which one must match, or a condition.',
    ),
  ordering_key: pointer
    .nullable()
    .describe(
      'A JSON pointer into the event: events with the same value there are delivered in order. Null: the ordering key of the event counts.',
    ),
  on_exhausted: z.enum(['skip', 'block']),
  retry_backoff_seconds: z
    .array(z.number().min(0).max(2_592_000))
    .max(100)
    .nullable()
    .describe(
      'Seconds to wait after each failure but the last. An empty list makes the first failure final.',
    ),
  max_retries: between(1, 1000).describe(
    'Failures allowed: with 3 the third failure is final. With `retry_backoff_seconds` it must be one more than their number.',
  ),
  retry_delay_seconds: z
    .number()
    .min(0)
    .max(2_592_000)
    .nullable()
    .describe(
      'Seconds to wait after each failure, if there are no `retry_backoff_seconds`; null: as if left out.',
    ),
  lease_seconds: between(1, 43_200),
  max_concurrency: between(1, 100_000).nullable(),
  rate_per_second: z.number().min(rateMin).max(rateMax).nullable(),
  key_concurrency: between(1, 100_000).nullable(),
  ...webhookFields,
}
const secret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{22,172}={0,2}$/)
  .describe('The secret that signs deliveries; if it is left out, Posthorn creates one.')

export const newSubscriber = bodyObject('NewSubscriber', {
  ...z.object(subscriberFields).partial().shape,
  event_types: subscriberFields.event_types,
  via: z
    .enum(['pull', 'webhook'])
    .default('webhook')
    .describe('`webhook` needs a `url`; `pull` needs a `name`, which workers pull by.'),
  secret: secret.optional(),
  is_active: z.boolean().optional(),
})
export const subscriberChange = bodyObject('SubscriberChange', {
  ...z.object(subscriberFields).partial().shape,
  name: subscriberFields.name.optional().describe('The present name: a name cannot be changed.'),
  headers: headersOf(z.string().max(4096).nullable())
    .optional()
    .describe('Adds these headers, or replaces those of the same name; null removes a header.'),
  is_active: z
    .boolean()
    .optional()
    .describe(
      '`false` pauses the subscription, `true` resumes it if it is paused; a suspended subscription stays suspended.',
    ),
})
const subscriberShape = {
  id: z.uuid(),
  name: z.string(),
  via: z.enum(['handler', 'pull', 'webhook']),
  event_types: z.array(z.string()),
  tags: z.string().nullable(),
  filter: z.record(z.string(), z.unknown()).nullable(),
  ordering_key: z.string().nullable(),
  status: z.string(),
  is_active: z.boolean().describe('False only while the subscription is paused.'),
  on_exhausted: z.enum(['skip', 'block']),
  retry_backoff_seconds: z.array(z.number()).nullable(),
  retry_delay_seconds: z.number().nullable(),
  max_retries: z.int(),
  lease_seconds: z.number(),
  max_concurrency: z.int().nullable(),
  rate_per_second: z.number().nullable(),
  key_concurrency: z.int().nullable(),
  created_at: time,
  updated_at: time,
  url: z.string().optional(),
  headers: z
    .record(z.string(), z.string())
    .optional()
    .describe(
      'The headers sent with every delivery. `[hidden]` stands for a value that is not shown; sent back, it leaves the value unchanged.',
    ),
  public_headers: z.array(z.string()).optional(),
  format: z.enum(formats).optional(),
  timeout_ms: z.int().nullable().optional(),
  outcomes: z.record(z.string(), z.string()).optional(),
  endpoint: z
    .object({
      state: z.enum(['open', 'suspended', 'recovering']),
      unreachable_in_a_row: z.int(),
      suspended_at: time.nullable(),
      next_probe_at: time.nullable(),
      concurrency: z
        .int()
        .nullable()
        .describe('While the endpoint recovers: how many requests at once it gets; null otherwise.'),
      last_error: z.string().nullable(),
      last_error_at: time.nullable(),
    })
    .optional()
    .describe('How sending to the endpoint is going.'),
}
export const subscriber = answerObject('Subscriber', subscriberShape)
export const createdSubscriber = answerObject('CreatedSubscriber', {
  ...subscriberShape,
  secret: z
    .string()
    .optional()
    .describe('For webhooks: the secret that signs deliveries. It is not shown again.'),
})
export const subscribers = answerObject('Subscribers', { subscribers: z.array(subscriber), ...pageFields })

export const rotation = z.strictObject({
  secret: secret.optional(),
  overlap_seconds: between(0, 2_592_000)
    .default(86_400)
    .describe('For how long deliveries are also signed with the old secrets, in seconds.'),
})
export const rotated = answerObject('RotatedSecret', { id: z.uuid(), secret: z.string() })
export const testResult = answerObject('TestResult', {
  delivered: z.boolean(),
  webhook_id: z.uuid(),
  status_code: z.int().nullable(),
  error_class: z.string().nullable(),
  error: z.string().nullable(),
  response: z
    .object({ headers: z.record(z.string(), z.string()), body: z.string(), bytes: z.int() })
    .nullable(),
  timings: z.record(z.string(), z.number()),
})
