import { z } from 'zod'
import { cursorCharsMax, subscriberRef } from './delivery-schemas.ts'
import { searchedList } from './list-schemas.ts'
import { answerObject, between, bodyObject, eventId, flag, moment, paging, time } from './schemas.ts'

const typeName = z.string().regex(/^[A-Za-z0-9_.:-]{1,100}$/)
const kind = z.enum(['buried', 'expired'])

export const deadLetterQuery = z.strictObject({
  subscriber: subscriberRef.optional(),
  event_id: eventId.optional(),
  event_type: typeName.optional().describe('Only dead letters of events of this type that are still stored.'),
  kind: kind.optional(),
  since: moment().optional().describe('Only what became a dead letter at or after this time.'),
  until: moment().optional().describe('Only what became a dead letter before this time.'),
  include_retried: flag().optional(),
  ...paging('By id, which is the order in time.', { cursorCharsMax }),
})

export const retryBody = bodyObject('RetryDeadLetters', {
  ids: z.array(z.uuid()).min(1).max(1000).optional(),
  subscriber: subscriberRef.optional(),
  event_id: between(1, Number.MAX_SAFE_INTEGER).optional(),
  event_type: typeName.optional(),
  kind: kind.optional(),
  since: time.optional(),
  until: time.optional(),
})
export const retried = answerObject('RetriedDeadLetters', {
  retried: z.int().describe('How many dead letters were retried.'),
  more: z.boolean().describe('True: more dead letters match, so repeat the call.'),
})

const letterFields = {
  id: z.uuid(),
  message_id: z
    .uuid()
    .nullable()
    .describe('The id of the delivery; null if no subscription matched the event.'),
  event_id: z.int(),
  event_type: z.string().nullable(),
  subscriber_id: z.uuid().nullable(),
  subscriber: z.string().nullable(),
  kind,
  failure_reason: z.string(),
  attempts: z.int(),
  failures: z.int(),
  moved_to_dlq_at: time,
  manual_retry_by: z
    .string()
    .nullable()
    .describe('The id of the API key that retried the dead letter; `local` where no API keys exist.'),
  manual_retry_at: time.nullable(),
  purged_at: time
    .optional()
    .describe('When the content of the event was erased; the dead letter cannot be retried.'),
}
export const letter = answerObject('DeadLetter', letterFields)
export const letterList = answerObject('DeadLetters', {
  dead_letters: z.array(letter),
  ...searchedList,
})
export const letterDetails = answerObject('DeadLetterDetails', {
  ...letterFields,
  event_snapshot: z.looseObject({}).describe('The event as it was published, its payload byte for byte.'),
  subscriber_snapshot: z.looseObject({}).nullable(),
})
