import { z } from 'zod'
import { patternCharsMax, patternForm } from '../domain/pattern.ts'
import { eventStatuses } from '../domain/status.ts'
import { tagsTextCharsMax } from '../domain/tags.ts'
import { isLongerThan } from '../domain/text.ts'

/**
 * Schemas of what goes over HTTP. A named schema becomes a component of the OpenAPI document. What publishers send is only
 * documented here, since its bytes are stored unchanged; domain/event.ts checks it.
 */

export const components = z.registry<{ id: string }>()

export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  components.add(schema, { id })
  return schema
}

/** An object of an answer: it may get further fields later. */
export function answerObject<Shape extends z.ZodRawShape>(id: string, shape: Shape) {
  return named(id, z.object(shape))
}

/** An object of a request: a field that it does not have is refused. */
export function bodyObject<Shape extends z.ZodRawShape>(id: string, shape: Shape, meaning?: string) {
  const object = z.strictObject(shape)
  return named(id, meaning === undefined ? object : object.describe(meaning))
}

/** A whole number in a body. */
export function between(min: number, max: number) {
  return z.int().min(min).max(max)
}

/** A whole number in a query. */
export function whole(min: number, max: number) {
  return z
    .string()
    .transform((text) => (/^-?\d{1,16}$/.test(text) ? Number(text) : text))
    .pipe(z.int().min(min).max(max))
}

export const cursorMeaning = 'The `next_cursor` of a page: the answer continues where that page ended.'

/** The parameters that every list has behind its filter. */
export function paging(orderMeaning: string, { cursorCharsMax = 200 } = {}) {
  return {
    limit: whole(1, 1000).optional(),
    offset: whole(0, 10_000).optional(),
    order: z.enum(['asc', 'desc']).optional().describe(orderMeaning),
    cursor: z.string().max(cursorCharsMax).optional().describe(cursorMeaning),
  }
}

/** The query of a list that has no filter. */
export const pageQuery = z.strictObject(paging('By the time at which they were first seen.'))

/** The fields that every page has beside its items. */
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
  .pipe(between(1, Number.MAX_SAFE_INTEGER))

export const time = z.iso.datetime({ offset: true })

/** Zod counts halves of surrogate pairs. JSON Schema, PostgreSQL and people count characters. */
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
export const workerId = text(255).describe(
  'The name of the worker: `{hostname}:{process id}`, or any other name.',
)
/** These patterns are documentation; domain/tags.ts checks tags. */
const tagsList = z.array(text(100).meta({ pattern: '^\\s*[^,\\s][^,]*$' })).max(32)
const tagsForm = { error: 'text or a list of texts' }
export const tagsIn = z.union(
  [text(tagsTextCharsMax, 0).meta({ pattern: '^[^,]{0,100}(,[^,]{0,100}){0,31}$' }), tagsList],
  tagsForm,
)
/** Tags to filter by: at least one. */
export const tagsAsked = text(tagsTextCharsMax, 0).meta({
  pattern: '^[^,\\s][^,]{0,99}(,[^,]{0,100}){0,31}$',
  description: 'Any of these tags, separated by commas: up to 32 tags of up to 100 characters each.',
})
export const tagsFilter = z.union([tagsAsked, tagsList.min(1)], tagsForm)
export const json = z
  .unknown()
  .describe('Any JSON up to 1 MB, nested up to 64 levels deep, stored byte for byte.')
export const sourceFields = {
  type: text(255).nullable().optional(),
  id: text(255).nullable().optional(),
  name: text(255).nullable().optional(),
}

export const event = answerObject('Event', {
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
})

export const leasedEvent = answerObject('LeasedEvent', {
  ...event.shape,
  lease_token: z
    .string()
    .describe('Identifies the lease; only the newest lease of a delivery can settle it.'),
  lease_expires_at: time,
  attempt: z.int(),
  subscription: z.string(),
  suspect: z.literal(true).optional().describe('The worker that held the delivery before has vanished.'),
})

const claim = {
  worker_id: workerId.optional(),
  lease_token: z.string().max(60).optional().describe('The token that came with the lease.'),
}
const milliseconds = between(0, 2_147_483_647).optional()
const report = {
  ...claim,
  execution_time_ms: milliseconds,
  started_after_ms: milliseconds.describe('Milliseconds between the lease and the begin of the attempt.'),
  status_code: between(0, 999).optional(),
}
const failure = {
  error_message: text(100_000, 0).optional(),
  permanent: z.boolean().optional().describe('True: no retry can succeed, so the delivery is buried.'),
  retry_after_ms: between(0, 86_400_000).optional().describe('Wait at least this long before the retry.'),
}

const claimRule = 'Needs a `lease_token` or a `worker_id`; if both are given, the token counts.'

export const claimBody = bodyObject('Claim', claim, claimRule)
export const heartbeatBody = bodyObject('Heartbeat', {
  ...claim,
  lease: between(1, 43_200).optional().describe('How long the lease is to last from now on, in seconds.'),
  begun: z
    .array(z.int().min(1))
    .max(1000)
    .optional()
    .describe('The ids of the events that run now under this lease.'),
})
export const completeBody = bodyObject('Complete', report, claimRule)
export const failBody = bodyObject('Fail', { ...report, ...failure }, claimRule)
const outcomes = ['complete', 'fail', 'snooze', 'bury', 'release'] as const
export const settleBody = bodyObject('Settle', {
  worker_id: workerId.optional(),
  outcomes: z
    .array(
      z.strictObject({
        event_id: z.int().min(1),
        outcome: z.enum(outcomes),
        ...report,
        ...failure,
        after_ms: between(0, 31_536_000_000).optional().describe('For `snooze`: how long to wait.'),
        reason: text(100_000, 0).optional().describe('For `bury`: why.'),
      }),
    )
    .min(1)
    .max(1000),
})

export const logEntry = answerObject('LogEntry', {
  id: z.int().describe('The id of the log entry: it grows with time and is unique within the event.'),
  event_id: z.int(),
  worker_id: z.string().nullable(),
  action: z
    .string()
    .describe('PICKED, STARTED, COMPLETED, FAILED, SNOOZED, RELEASED, RESET, EXPIRED or CANCELLED.'),
  status_code: z.int().optional(),
  error_message: z.string().optional(),
  execution_time_ms: z.int().optional(),
  created_at: time,
})
export const failEntry = answerObject('FailEntry', {
  ...logEntry.shape,
  retry_scheduled: z.boolean(),
  next_retry_at: time.nullable(),
  retry_count: z.int(),
  max_retries: z.int(),
})
export const settleResults = answerObject('SettleResults', {
  results: z.array(z.looseObject({ event_id: z.int(), status: z.int() })),
})
export const lease = answerObject('Lease', {
  event_id: z.int(),
  worker_id: z.string().nullable(),
  lease_token: z.string(),
  lease_expires_at: time,
  cancelled: z.boolean(),
  cancelled_event_ids: z
    .array(z.int())
    .describe(
      'Cancelled events among all that the worker holds through this subscription: stop them, or do not begin them.',
    ),
  held: z.boolean().describe('True: the queue is paused, so begin no further event.'),
})

export const delivery = answerObject('Delivery', {
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
})
export const eventDetails = answerObject('EventDetails', {
  ...event.shape,
  purged_at: time.optional().describe('When the content of the event was erased.'),
  deliveries: z.array(delivery),
  logs: z.array(logEntry).optional(),
})
export const listedEvent = named('ListedEvent', event.omit({ payload: true, attributes: true }))
export const problem = named(
  'Problem',
  z.looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().describe('The error code. It does not change between versions.'),
    error: z.string(),
    instance: z.string().describe('The id of the request, as in `X-Request-Id`.'),
  }),
)
