import { z } from 'zod'
import type { Hub } from '../../hub.ts'
import { linkTo, pageFieldsOf, pagingOf } from '../list-page.ts'
import * as schemas from '../manage-schemas.ts'
import { type Answer, defineRoute, type Route } from '../route.ts'

export interface ServerState {
  /** It has been told to stop, and finishes what is under way. */
  isDraining(): boolean
  /** Of the program. */
  readonly version: string
}

const health = z.object({ status: z.string() })

export function probeRoutes(hub: Hub, state: ServerState): Route[] {
  const ready = () => readiness(hub, state)
  return [
    defineRoute({
      ...{ method: 'GET', path: '/livez', name: 'live', scope: null },
      summary: 'Whether the process answers',
      responses: { 200: { description: 'It does.', schema: health } },
      handle: () => ({ status: 200, json: { status: 'ok' } }),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/readyz', name: 'ready', scope: null },
      summary: 'Whether it can do its work: database, migrations, not draining',
      responses: {
        200: { description: 'It can.', schema: health },
        503: { description: 'It cannot.', schema: health },
      },
      handle: ready,
    }),
    defineRoute({
      ...{ method: 'GET', path: '/healthz', name: 'healthy', scope: null },
      summary: 'The same as /readyz',
      responses: {
        200: { description: 'It can.', schema: health },
        503: { description: 'It cannot.', schema: health },
      },
      handle: ready,
    }),
    defineRoute({
      ...{ method: 'GET', path: '/workers', name: 'listWorkers', scope: 'read' },
      query: schemas.workerQuery,
      summary: 'Every worker seen: when last, what it has under way, whether it has gone silent',
      responses: {
        200: {
          description: 'The newest first, unless `order=asc`.',
          schema: schemas.workers,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ query, request }) => {
        const { stale } = query
        const asked = stale === undefined ? {} : ({ state: stale ? 'stale' : 'alive' } as const)
        const page = await hub.workerPage({ order: 'desc', ...pagingOf(query), ...asked })
        const workers = page.workers.map(({ name, seenAt, inFlight, stale, staleReason, staleSince }) => ({
          ...{ worker_id: name, last_seen_at: seenAt, in_flight: inFlight },
          ...{ stale, stale_reason: staleReason, stale_since: staleSince },
        }))
        const json = { workers, ...pageFieldsOf(query, page) }
        return { status: 200, json, headers: linkTo(request.url, page.nextCursor) }
      },
    }),
  ]
}

async function readiness(hub: Hub, state: ServerState): Promise<Answer> {
  if (state.isDraining()) return notReady('draining')
  const trouble = await hub.unready()
  return trouble === undefined ? { status: 200, json: { status: 'ok' } } : notReady(trouble)
}

function notReady(status: string): Answer {
  return { status: 503, json: { status }, headers: { 'retry-after': '1' } }
}
