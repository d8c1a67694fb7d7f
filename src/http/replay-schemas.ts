import { z } from 'zod'
import { letterKinds, replayEventIdsMax, replayStates } from '../domain/replay.ts'
import { rateMax, rateMin } from '../domain/subscription.ts'
import { answerObject, bodyObject, moment, pageFields, paging, time, typeFilter } from './schemas.ts'
import { subscriberChange } from './subscriber-schemas.ts'

const terms = {
  rate_per_second: z
    .number()
    .min(rateMin)
    .max(rateMax)
    .optional()
    .describe('At most this many deliveries are sent per second; default: no limit.'),
  dry_run: z.boolean().optional().describe('True: only count what would be sent.'),
  again: z
    .boolean()
    .optional()
    .describe('True: start again, even if the same call was made in the last ten minutes.'),
}

export const recoverQuery = z.strictObject({ since: moment().optional() })
export const recoverBody = bodyObject('Recover', {
  since: time.optional().describe('Only dead letters buried at or after this time. Here or in the query.'),
  until: time.optional().describe('Only dead letters buried before this time.'),
  dead_letters: z
    .enum(letterKinds)
    .optional()
    .describe('Which dead letters: `buried` (the default), `expired` or `all`.'),
  ...terms,
})
export const replayBody = bodyObject(
  'ReplayEvents',
  {
    from: time.optional().describe('Only events published at or after this time.'),
    to: time.optional().describe('Only events published before this time.'),
    event_ids: z.array(z.int().min(1)).min(1).max(replayEventIdsMax).optional(),
    event_type: typeFilter
      .optional()
      .describe(
        'Only events of this type: `order.created`, `order.*`, or `*` for every event that has a type.',
      ),
    filter: subscriberChange.shape.filter,
    ...terms,
  },
  'Needs at least one of the first five fields; an event must match all that are given.',
)

export const replay = answerObject('Replay', {
  id: z.uuid(),
  kind: z.enum(['recover', 'replay']),
  subscriber_id: z.uuid(),
  subscriber: z.string(),
  state: z.enum(replayStates),
  request: z.looseObject({}),
  total: z.int().describe('Deliveries to send, as counted at the start.'),
  total_is_estimate: z.literal(true).optional(),
  done: z.int().describe('Deliveries that were sent again.'),
  skipped: z.int().describe('Deliveries that were left alone, since they were waiting or leased.'),
  removed: z.int().describe('Events that were asked for, but are no longer stored.'),
  remaining: z.int(),
  percent: z.int(),
  reached_event_id: z.int().describe('Everything up to this event id is done.'),
  oldest_kept_at: time.nullable(),
  rate_per_second: z.number().nullable(),
  created_at: time,
  created_by: z.string(),
  finished_at: time.nullable(),
  reason: z.string().nullable().describe('Why it was aborted; null if it was not.'),
  last_error: z
    .string()
    .nullable()
    .describe('Why the last step failed; Posthorn tries it again. Null if it did not fail.'),
})
export const replayCount = answerObject('ReplayCount', {
  dry_run: z.literal(true),
  count: z.int(),
  count_is_estimate: z.literal(true).optional().describe('True: `count` is an estimate.'),
  removed: z.int(),
  oldest_kept_at: time.nullable(),
})
export const replayOrCount = z.union([replay, replayCount])
export const replays = answerObject('Replays', {
  replays: z.array(replay),
  ...pageFields,
  total_is_estimate: z.literal(true).optional(),
})

export const replaysQuery = z.strictObject({
  subscriber: z.uuid().optional(),
  state: z.enum(replayStates).optional(),
  ...paging('By id: `asc` has the oldest first.'),
})
