import { z } from 'zod'
import { named, time } from './schemas.ts'

const table = z.object({
  table: z.string(),
  rows: z.int(),
  rows_are_estimate: z.literal(true).optional().describe('As the last vacuum or analyze has seen it.'),
  bytes: z.int().describe('With its indexes.'),
  oldest_at: time.nullable().describe('When the oldest of it is from, where that is known.'),
})

export const storage = named(
  'Storage',
  z.object({
    bytes: z.int().describe('Of all tables.'),
    tables: z.array(table).describe('The largest first.'),
    keep_finished_ms: z.int(),
    keep_audit_ms: z.int(),
    keep_dead_letters_ms: z.int(),
    archives_audit: z.boolean().describe('Whether the audit is written to files before it goes.'),
    types: z
      .array(z.object({ type: z.string(), keep_ms: z.int() }))
      .describe('Those that say how long they are kept. 0: gone as soon as they have succeeded.'),
  }),
)

export const purged = named('PurgedEvent', z.object({ event_id: z.int(), purged_at: time }))
