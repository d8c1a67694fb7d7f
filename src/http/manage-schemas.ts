import { z } from 'zod'
import { eventStatuses } from '../domain/status.ts'
import { eventDetails, named, pageFields, tagsFilter, text, time, typeFilter } from './schemas.ts'

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
    reason: text(4000, 0).optional(),
  }),
)
export const cancelled = named(
  'Cancelled',
  z.object({
    event_id: z.int().optional(),
    cancelled: z.int().describe('Deliveries that waited.'),
    told: z.int().describe('Deliveries that are under way: their workers learn it by heartbeat.'),
    more: z.boolean().optional().describe('There may be more that match: call it again.'),
  }),
)

export const workers = named(
  'Workers',
  z.object({
    workers: z.array(
      z.object({ worker_id: z.string(), last_seen_at: time, in_flight: z.int(), stale: z.boolean() }),
    ),
    ...pageFields,
  }),
)
