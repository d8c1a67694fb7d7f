import { z } from 'zod'
import type { Hub, Storage } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import { defineRoute, type Route } from '../route.ts'
import { answerObject, eventId, text, time } from '../schemas.ts'

const table = z.object({
  table: z.string(),
  rows: z.int(),
  rows_are_estimate: z.literal(true).optional().describe('True: `rows` is the estimate of the last analyze.'),
  bytes: z.int().describe('Size of the table with its indexes.'),
  oldest_at: time.nullable().describe('When the oldest row was written, if that is known.'),
})

const storage = answerObject('Storage', {
  bytes: z.int().describe('Size of all tables.'),
  tables: z.array(table).describe('The tables, largest first.'),
  keep_finished_ms: z.int(),
  keep_audit_ms: z.int(),
  keep_dead_letters_ms: z.int(),
  archives_audit: z.boolean().describe('True: audit records are written to files before they are deleted.'),
  types: z
    .array(z.object({ type: z.string(), keep_ms: z.int() }))
    .describe('Types of events with their own keeping time. 0: deleted as soon as they have succeeded.'),
})

const purged = answerObject('PurgedEvent', { event_id: z.int(), purged_at: time })

/** How much is stored, and the erasure of one event's content. */
export function storageRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /storage', 'getStorage', 'read', {
      summary: 'Show how much is stored and how long it is kept',
      responses: { 200: { description: 'Every table, and the keeping times.', schema: storage } },
      handle: async () => ({ status: 200, json: storageJson(await hub.storage()) }),
    }),
    defineRoute('POST /events/{id}/purge', 'purgeEvent', 'manage', {
      params: z.object({ id: eventId }),
      query: z.strictObject({ reason: text(4000, 0).optional() }),
      summary: 'Erase the content of an event',
      description:
        'Erases payload, title, description and attributes, also in the snapshots of dead letters, and the bodies that ' +
        'receivers answered with. The audit records stay. The event is never delivered again. The call may be repeated.',
      responses: { 200: { description: 'When the event was purged first.', schema: purged } },
      errors: ['NOT_FINISHED'],
      handle: async ({ params, query: { reason = 'purged' }, caller }) => {
        const by = { by: caller.name, remote: caller.remote }
        const { eventId, purgedAt } = await hub.retention.purge(params.id, reason, by)
        return { status: 200, json: { event_id: eventId, purged_at: purgedAt } }
      },
    }),
  ]
}

const tableJson = writerOf(table, ({ rowsAreEstimate }: Storage['tables'][number]) => ({
  rows_are_estimate: rowsAreEstimate || undefined,
}))

export const storageJson = writerOf(storage, ({ tables, policies }: Storage) => ({
  bytes: tables.reduce((sum, { bytes }) => sum + bytes, 0),
  tables: tables.map(tableJson),
  keep_finished_ms: policies.keepFinishedMs,
  keep_audit_ms: policies.keepAuditMs,
  keep_dead_letters_ms: policies.keepDeadLettersMs,
  archives_audit: policies.archiveDirectory !== undefined,
  types: policies.types.map(({ type, keepMs }) => ({ type, keep_ms: keepMs })),
}))
