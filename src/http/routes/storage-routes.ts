import { z } from 'zod'
import type { Hub, Storage } from '../../hub.ts'
import { defineRoute, type Route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { purged, storage } from '../storage-schemas.ts'

const params = z.object({ id: schemas.eventId })

/** What is kept, and what is erased on demand. */
export function storageRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/storage', name: 'getStorage', scope: 'read' },
      summary: 'How much is stored of what, and how long it is kept',
      responses: { 200: { description: 'Every table, and the policies.', schema: storage } },
      handle: async () => ({ status: 200, json: storageJson(await hub.storage()) }),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/purge', name: 'purgeEvent', scope: 'manage', params },
      query: z.strictObject({ reason: schemas.text(4000, 0).optional() }),
      summary: 'Erase what an event said',
      description:
        'Its payload, title, description and attributes, also in the snapshots of dead letters, and the bodies of what ' +
        'receivers answered to it. Its audit stays. It is never delivered again. May be repeated.',
      responses: { 200: { description: 'When it was purged first.', schema: purged } },
      errors: ['NOT_FOUND', 'NOT_FINISHED', 'BAD_FIELD'],
      handle: async ({ params, query, caller }) => {
        const { reason = 'purged' } = query
        const by = { by: caller.name, remote: caller.remote }
        const { eventId, purgedAt } = await hub.retention.purge(params.id, reason, by)
        return { status: 200, json: { event_id: eventId, purged_at: purgedAt } }
      },
    }),
  ]
}

export function storageJson({ tables, policies }: Storage): object {
  return {
    bytes: tables.reduce((sum, { bytes }) => sum + bytes, 0),
    tables: tables.map(({ table, rows, rowsAreEstimate, bytes, oldestAt }) => ({
      ...{ table, rows, ...(rowsAreEstimate && { rows_are_estimate: true }) },
      ...{ bytes, oldest_at: oldestAt },
    })),
    keep_finished_ms: policies.keepFinishedMs,
    keep_audit_ms: policies.keepAuditMs,
    keep_dead_letters_ms: policies.keepDeadLettersMs,
    archives_audit: policies.archiveDirectory !== undefined,
    types: policies.types.map(({ type, keepMs }) => ({ type, keep_ms: keepMs })),
  }
}
