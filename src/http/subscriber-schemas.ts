import { z } from 'zod'
import { pointerCharsMax, pointerForm } from '../domain/filter.ts'
import { rateMax, rateMin } from '../domain/subscription.ts'
import { named, pageFields, tagsIn, time, typeFilter } from './schemas.ts'

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()])
const bound = z.number().optional()
const condition = z.union([
  scalar,
  z.array(scalar).min(1).max(100),
  z.strictObject({ exists: z.boolean() }),
  z.strictObject({ prefix: z.string().min(1) }),
  z
    .strictObject({ gt: bound, gte: bound, lt: bound, lte: bound })
    .refine((given) => Object.keys(given).length > 0)
    .meta({ minProperties: 1 }),
])
const pointer = z.string().max(pointerCharsMax).regex(pointerForm)

const subscriberFields = {
  name: z.string().regex(/^[A-Za-z0-9_.:-]{1,100}$/),
  event_types: z.array(typeFilter).max(1000),
  tags: tagsIn.nullable(),
  filter: z
    .record(pointer, condition)
    .refine((given) => Object.keys(given).length > 0 && Object.keys(given).length <= 20)
    .meta({ minProperties: 1, maxProperties: 20 })
    .nullable()
    .describe('By JSON pointer into the event: a value, a list of which one must fit, or a condition.'),
  ordering_key: pointer
    .nullable()
    .describe(
      'A JSON pointer into the event: order is kept for each value. Else the event’s own key counts.',
    ),
  on_exhausted: z.enum(['skip', 'block']),
  retry_backoff_seconds: z.array(z.number().min(0).max(2_592_000)).min(1).max(100).nullable(),
  max_retries: z
    .int()
    .min(1)
    .max(1000)
    .describe(
      'Failures allowed: with 3 the third is final. One more than there are `retry_backoff_seconds`.',
    ),
  retry_delay_seconds: z.number().min(0).max(2_592_000).describe('The wait after each failure.'),
  lease_seconds: z.int().min(1).max(43_200),
  max_concurrency: z.int().min(1).max(100_000).nullable(),
  rate_per_second: z.number().min(rateMin).max(rateMax).nullable(),
  key_concurrency: z.int().min(1).max(100_000).nullable(),
}
export const newSubscriber = named(
  'NewSubscriber',
  z.strictObject({
    ...z.object(subscriberFields).partial().shape,
    name: subscriberFields.name,
    event_types: subscriberFields.event_types,
    via: z.enum(['pull', 'webhook']).default('webhook').describe('Webhooks are not built yet.'),
    is_active: z.boolean().optional(),
  }),
)
export const subscriberChange = named(
  'SubscriberChange',
  z.strictObject({
    ...z.object(subscriberFields).partial().omit({ name: true }).shape,
    is_active: z.boolean().optional(),
  }),
)
export const subscriber = named(
  'Subscriber',
  z.object({
    id: z.uuid(),
    name: z.string(),
    via: z.enum(['handler', 'pull', 'webhook']),
    event_types: z.array(z.string()),
    tags: z.string().nullable(),
    filter: z.record(z.string(), z.unknown()).nullable(),
    ordering_key: z.string().nullable(),
    status: z.string(),
    is_active: z.boolean(),
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
  }),
)
export const subscribers = named('Subscribers', z.object({ subscribers: z.array(subscriber), ...pageFields }))
