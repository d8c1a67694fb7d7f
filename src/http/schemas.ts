import { z } from 'zod'
import { patternCharsMax, patternForm } from '../domain/pattern.ts'
import { eventStatuses } from '../domain/status.ts'
import { tagsTextCharsMax } from '../domain/tags.ts'
import { isLongerThan } from '../domain/text.ts'

/**
 * The words of the wire. What has a name here is a component of the OpenAPI document; what is only described, because
 * its bytes are kept as they came, is checked in domain/event.ts.
 */

export const components = z.registry<{ id: string }>()

export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  components.add(schema, { id })
  return schema
}

/** A number in a query. */
export function whole(min: number, max: number) {
  return z
    .string()
    .transform((text) => (/^-?\d{1,16}$/.test(text) ? Number(text) : text))
    .pipe(z.int().min(min).max(max))
}

/** Which part of a list that is asked for by nothing but this. */
export const pageQuery = z.strictObject({
  limit: whole(1, 1000).optional(),
  offset: whole(0, 10_000).optional(),
  order: z.enum(['asc', 'desc']).optional().describe('By when they were first known.'),
  cursor: z
    .string()
    .max(200)
    .optional()
    .describe('From `next_cursor`: goes on where a page ended, however deep.'),
})

/** What every page says of itself. */
export const pageFields = {
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().optional(),
}

/** A time in a query. */
export function moment() {
  return z.iso
    .datetime({ offset: true })
    .transform((text) => new Date(text))
    .pipe(z.date())
}

/** A flag in a query. */
export function flag() {
  return z.enum(['true', 'false']).transform((text) => text === 'true')
}

export const eventId = z
  .string()
  .regex(/^\d{1,16}$/)
  .transform(Number)
  .pipe(z.int().min(1).max(Number.MAX_SAFE_INTEGER))

export const time = z.iso.datetime({ offset: true })

/** Zod counts halves of surrogate pairs; JSON Schema, PostgreSQL and people count characters. */
export function text(charsMax: number, charsMin = 1) {
  return z
    .string()
    .min(charsMin)
    .refine((value) => !isLongerThan(value, charsMax), {
      error: `Too big: expected string to have <=${charsMax} characters`,
    })
    .meta({ maxLength: charsMax })
}

export const typeFilter = z.string().max(patternCharsMax).regex(patternForm)
export const workerId = text(255).describe('Who works: `{hostname}:{process id}`, or any name of its own.')
/** What is said of them in patterns is checked when they are taken apart, in domain/tags.ts. */
const tagsList = z.array(text(100).meta({ pattern: '^\\s*[^,\\s][^,]*$' })).max(32)
const tagsForm = { error: 'text or a list of texts' }
export const tagsIn = z.union(
  [text(tagsTextCharsMax, 0).meta({ pattern: '^[^,]{0,100}(,[^,]{0,100}){0,31}$' }), tagsList],
  tagsForm,
)
/** To choose by: there is at least one. */
export const tagsAsked = text(tagsTextCharsMax, 0).meta({
  pattern: '^[^,\\s][^,]{0,99}(,[^,]{0,100}){0,31}$',
  description: 'Any of these, separated by commas: up to 32, each of up to 100 characters.',
})
export const tagsFilter = z.union([tagsAsked, tagsList.min(1)], tagsForm)
export const json = z.unknown().describe('Any JSON up to 1 MB, nested up to 64 deep, kept byte for byte.')
export const sourceFields = {
  type: text(255).nullable().optional(),
  id: text(255).nullable().optional(),
  name: text(255).nullable().optional(),
}

export const event = named(
  'Event',
  z.object({
    id: z.int(),
    type: z.string().nullable(),
    title: z.string().nullable(),
    description: z.string().nullable(),
    tags: z.string().nullable(),
    status: z.enum(eventStatuses),
    payload: json,
    ordering_key: z.string().nullable(),
    concurrency_key: z.string().optional(),
    version: z.string().optional(),
    source: z.object(sourceFields).optional(),
    timestamp: time.optional(),
    correlation_id: z.string().optional(),
    causation_id: z.string().optional(),
    traceparent: z.string().optional(),
    run_at: time.optional(),
    expires_at: time.optional(),
    attributes: z.record(z.string(), z.unknown()).optional(),
    retry_count: z.int(),
    max_retries: z.int().nullable(),
    next_retry_at: time.nullable(),
    created_at: time,
    updated_at: time,
  }),
)

export const leasedEvent = named(
  'LeasedEvent',
  event.extend({
    lease_token: z.string().describe('Says which lease is meant; whoever holds a newer one decides.'),
    lease_expires_at: time,
    attempt: z.int(),
    subscription: z.string(),
    suspect: z.literal(true).optional().describe('The worker that had it before has vanished.'),
  }),
)

const claim = {
  worker_id: workerId.optional(),
  lease_token: z.string().max(60).optional().describe('As the lease gave it.'),
}
const report = {
  ...claim,
  execution_time_ms: z.int().min(0).max(2_147_483_647).optional(),
  started_after_ms: z
    .int()
    .min(0)
    .max(2_147_483_647)
    .optional()
    .describe('How long after the lease it began.'),
  status_code: z.int().min(0).max(999).optional(),
}
const failure = {
  error_message: text(100_000, 0).optional(),
  permanent: z.boolean().optional().describe('No later attempt can do better: bury it.'),
  retry_after_ms: z.int().min(0).max(86_400_000).optional().describe('Not before.'),
}

const claimRule = 'Needs a `lease_token` or a `worker_id`; with both the token counts.'

export const claimBody = named('Claim', z.strictObject(claim).describe(claimRule))
export const heartbeatBody = named(
  'Heartbeat',
  z.strictObject({
    ...claim,
    lease: z.int().min(1).max(43_200).optional().describe('Seconds from now.'),
    begun: z.array(z.int().min(1)).max(1000).optional().describe('What runs now under this lease.'),
  }),
)
export const completeBody = named('Complete', z.strictObject(report).describe(claimRule))
export const failBody = named('Fail', z.strictObject({ ...report, ...failure }).describe(claimRule))
const outcomes = ['complete', 'fail', 'snooze', 'bury', 'release'] as const
export const settleBody = named(
  'Settle',
  z.strictObject({
    worker_id: workerId.optional(),
    outcomes: z
      .array(
        z.strictObject({
          event_id: z.int().min(1),
          outcome: z.enum(outcomes),
          ...report,
          ...failure,
          after_ms: z.int().min(0).max(31_536_000_000).optional().describe('Of a snooze.'),
          reason: text(100_000, 0).optional().describe('Of a burial.'),
        }),
      )
      .min(1)
      .max(1000),
  }),
)

export const logEntry = named(
  'LogEntry',
  z.object({
    id: z.int().describe('Grows with time; unique within the event.'),
    event_id: z.int(),
    worker_id: z.string().nullable(),
    action: z
      .string()
      .describe('PICKED, STARTED, COMPLETED, FAILED, SNOOZED, RELEASED, RESET, EXPIRED, CANCELLED …'),
    status_code: z.int().optional(),
    error_message: z.string().optional(),
    execution_time_ms: z.int().optional(),
    created_at: time,
  }),
)
export const failEntry = named(
  'FailEntry',
  logEntry.extend({
    retry_scheduled: z.boolean(),
    next_retry_at: time.nullable(),
    retry_count: z.int(),
    max_retries: z.int(),
  }),
)
export const settleResults = named(
  'SettleResults',
  z.object({ results: z.array(z.looseObject({ event_id: z.int(), status: z.int() })) }),
)
export const lease = named(
  'Lease',
  z.object({
    event_id: z.int(),
    worker_id: z.string().nullable(),
    lease_token: z.string(),
    lease_expires_at: time,
    cancelled: z.boolean(),
    cancelled_event_ids: z
      .array(z.int())
      .describe(
        'What was cancelled of all that its worker holds through the subscription: stop it, or do not begin it.',
      ),
    held: z.boolean().describe('Its queue is paused: nothing more is to begin.'),
  }),
)

const delivery = named(
  'Delivery',
  z.object({
    id: z.uuid(),
    subscription: z.string(),
    subscription_id: z.uuid(),
    state: z.string(),
    attempts: z.int(),
    failures: z.int(),
    next_at: time.nullable(),
    last_error: z.string().nullable(),
    last_error_at: time.nullable(),
    leased_at: time.nullable(),
    leased_until: time.nullable(),
    worker_id: z.string().nullable(),
    updated_at: time,
  }),
)
export const eventDetails = named(
  'EventDetails',
  event.extend({
    purged_at: time.optional().describe('When what it said was erased.'),
    deliveries: z.array(delivery),
    logs: z.array(logEntry).optional(),
  }),
)
export const listedEvent = named('ListedEvent', event.omit({ payload: true, attributes: true }))
export const problem = named(
  'Problem',
  z.looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().describe('Stable: a word of the error table.'),
    error: z.string(),
    instance: z.string().describe('The id of the request.'),
  }),
)
