import { z } from 'zod'
import { laneStatuses } from '../domain/lane-summary.ts'
import { cursor } from './delivery-schemas.ts'
import { named, text, time, whole } from './schemas.ts'

export const laneQuery = z.strictObject({
  status: z.enum(laneStatuses).optional(),
  limit: whole(1, 1000).optional(),
  cursor: cursor.optional(),
})
export const laneKey = text(255).describe(
  'The ordering key, percent-encoded; `-` where the parameter `key` has it.',
)
export const oneLaneQuery = z.strictObject({
  key: text(255)
    .optional()
    .describe(
      'The ordering key, where it cannot stand in a path: clients take `.` and `..` there for folders.',
    ),
})

export const lane = named(
  'Lane',
  z.object({
    ordering_key: z.string(),
    status: z
      .enum(laneStatuses)
      .describe(
        '`blocked`: stopped at a buried head. `retrying`: its head waits for another attempt. `delivering`: a worker has it. `waiting`: for the first attempt of its head.',
      ),
    head_event_id: z.int(),
    head_delivery_id: z.uuid().nullable(),
    waiting: z.int().describe('Deliveries behind the head.'),
    waiting_is_least: z.literal(true).optional().describe('There may be more than were counted.'),
    since: time.nullable(),
    next_try_at: time.nullable(),
    last_error: z.string().nullable(),
    summary: z.string(),
  }),
)
export const lanes = named(
  'Lanes',
  z.object({
    lanes: z.array(lane),
    limit: z.int(),
    next_cursor: z
      .string()
      .optional()
      .describe('A page may have less than `limit` and be followed by others: a call looks at 50,000 lanes.'),
  }),
)
export const laneDone = named(
  'LaneDone',
  z.object({
    ordering_key: z.string(),
    event_id: z.int().describe('The head it was done to.'),
    done: z.enum(['retried', 'skipped', 'discarded']),
  }),
)
