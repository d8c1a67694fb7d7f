import { z } from 'zod'
import { eventStatuses } from '../domain/status.ts'
import {
  eventDetails,
  flag,
  named,
  pageFields,
  pageQuery,
  tagsFilter,
  text,
  time,
  typeFilter,
} from './schemas.ts'

export const resetEvent = named('ResetEvent', eventDetails.extend({ reset: z.int() }))
export const cancelOneBody = named('CancelOne', z.strictObject({ reason: text(4000, 0).optional() }))
export const cancelBody = named(
  'Cancel',
  z.strictObject({
    ids: z.array(z.int().min(1)).min(1).max(1000).optional(),
    status: z.enum(eventStatuses).optional(),
    type: typeFilter.optional(),
    tags: tagsFilter.optional(),
    ordering_key: text(255).optional(),
    created_from: time.optional(),
    created_to: time.optional(),
    cursor: z
      .string()
      .max(200)
      .optional()
      .describe('From `next_cursor` of the call before, with the same filter.'),
    reason: text(4000, 0).optional(),
  }),
)
export const cancelled = named(
  'Cancelled',
  z.object({
    event_id: z.int().optional(),
    cancelled: z.int().describe('Deliveries that waited.'),
    told: z.int().describe('Deliveries that are under way: their workers learn it by heartbeat.'),
    more: z.boolean().optional().describe('More events match: call it again with `next_cursor`.'),
    next_cursor: z
      .string()
      .optional()
      .describe('Given with `more`. Send it as `cursor`, beside the same filter.'),
  }),
)

export const workerQuery = pageQuery.extend({
  stale: flag().optional().describe('Only those that are stale, or only those that are not.'),
})
export const workers = named(
  'Workers',
  z.object({
    workers: z.array(
      z.object({
        worker_id: z.string(),
        last_seen_at: time,
        in_flight: z.int(),
        stale: z.boolean(),
        stale_reason: z
          .enum(['silent', 'lapsed_lease'])
          .nullable()
          .describe(
            'What came first. `silent`: nothing was heard of it for 30 s. `lapsed_lease`: it let a lease end that has not been taken back yet.',
          ),
        stale_since: time.nullable(),
      }),
    ),
    ...pageFields,
  }),
)
