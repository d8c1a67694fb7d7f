import { z } from 'zod'
import { letterKinds, replayEventIdsMax, replayStates } from '../domain/replay.ts'
import { rateMax, rateMin } from '../domain/subscription.ts'
import { moment, named, pageFields, time, typeFilter, whole } from './schemas.ts'
import { subscriberChange } from './subscriber-schemas.ts'

const terms = {
  rate_per_second: z.number().min(rateMin).max(rateMax).optional().describe('Deliveries; default: no limit.'),
  dry_run: z.boolean().optional().describe('Only count.'),
  again: z
    .boolean()
    .optional()
    .describe('Do it once more, though the same was asked for in the last ten minutes.'),
}

export const recoverQuery = z.strictObject({ since: moment().optional() })
export const recoverBody = named(
  'Recover',
  z.strictObject({
    since: time.optional().describe('Buried at or after. Here or in the query.'),
    until: time.optional().describe('Buried before.'),
    dead_letters: z.enum(letterKinds).optional().describe('Default `buried`.'),
    ...terms,
  }),
)
export const replayBody = named(
  'ReplayEvents',
  z
    .strictObject({
      from: time.optional().describe('Published at or after.'),
      to: time.optional().describe('Published before.'),
      event_ids: z.array(z.int().min(1)).min(1).max(replayEventIdsMax).optional(),
      event_type: typeFilter.optional().describe('A type, `prefix.*`, or `*` for all that have one.'),
      filter: subscriberChange.shape.filter,
      ...terms,
    })
    .describe('Needs at least one of the first five; all that is given must hold.'),
)

export const replay = named(
  'Replay',
  z.object({
    id: z.uuid(),
    kind: z.enum(['recover', 'replay']),
    subscriber_id: z.uuid(),
    subscriber: z.string(),
    state: z.enum(replayStates),
    request: z.looseObject({}),
    total: z.int().describe('Deliveries, as counted when it was made.'),
    total_is_estimate: z.literal(true).optional(),
    done: z.int().describe('Sent once more.'),
    skipped: z.int().describe('Waiting or leased already.'),
    removed: z.int().describe('Asked for, and removed by retention.'),
    remaining: z.int(),
    percent: z.int(),
    reached_event_id: z.int().describe('Up to this event all is done.'),
    oldest_kept_at: time
      .nullable()
      .describe('Where older events are asked for than there are: when the oldest was published.'),
    rate_per_second: z.number().nullable(),
    created_at: time,
    created_by: z.string(),
    finished_at: time.nullable(),
    reason: z.string().nullable().describe('Why it was aborted.'),
    last_error: z.string().nullable().describe('Why the last step failed; it is tried again.'),
  }),
)
export const replayCount = named(
  'ReplayCount',
  z.object({
    dry_run: z.literal(true),
    count: z.int(),
    count_is_estimate: z.literal(true).optional(),
    removed: z.int(),
    oldest_kept_at: time.nullable(),
  }),
)
export const replayOrCount = z.union([replay, replayCount])
export const replays = named(
  'Replays',
  z.object({
    replays: z.array(replay),
    ...pageFields,
    total_is_estimate: z.literal(true).optional(),
  }),
)

export const replaysQuery = z.strictObject({
  subscriber: z.uuid().optional(),
  state: z.enum(replayStates).optional(),
  limit: whole(1, 1000).optional(),
  offset: whole(0, 10_000).optional(),
  order: z.enum(['asc', 'desc']).optional().describe('By id, the oldest first.'),
  cursor: z.string().max(200).optional().describe('From `next_cursor`.'),
})
