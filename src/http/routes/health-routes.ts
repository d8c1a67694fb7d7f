import { z } from 'zod'
import type { Hub, Worker } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import { pageAnswer, pageResponse, pagingOf } from '../page-answer.ts'
import { type Answer, defineRoute, type Route } from '../route.ts'
import { answerObject, flag, pageFields, pageQuery, time } from '../schemas.ts'

export interface ServerState {
  /** True once the server was told to stop and only finishes what is under way. */
  isDraining(): boolean
  /** The version of Posthorn. */
  readonly version: string
}

const health = z.object({ status: z.string().describe('`ok`, or why the server is not ready.') })
const readiness = {
  200: { description: 'The server is ready.', schema: health },
  503: { description: 'The server is not ready; `status` says why.', schema: health },
}
const metricsType = 'text/plain; version=0.0.4; charset=utf-8'

const worker = z.object({
  worker_id: z.string(),
  last_seen_at: time,
  in_flight: z.int(),
  stale: z.boolean(),
  stale_reason: z
    .enum(['silent', 'lapsed_lease'])
    .nullable()
    .describe(
      'The first sign that the worker is gone. `silent`: no call and no heartbeat for 30 s. `lapsed_lease`: one of its leases has ended, and nobody has taken it back yet.',
    ),
  stale_since: time.nullable(),
})
const workers = answerObject('Workers', { workers: z.array(worker), ...pageFields })

/** How this process and its workers are doing. */
export function healthRoutes(hub: Hub, state: ServerState): Route[] {
  const ready = () => readinessOf(hub, state)
  return [
    defineRoute('GET /livez', 'live', null, {
      summary: 'Check that the process answers',
      responses: { 200: { description: 'The process answers.', schema: health } },
      handle: () => ({ status: 200, json: { status: 'ok' } }),
    }),
    defineRoute('GET /readyz', 'ready', null, {
      summary: 'Check that the server can work: it reaches a migrated database, and is not stopping',
      responses: readiness,
      handle: ready,
    }),
    defineRoute('GET /healthz', 'healthy', null, {
      summary: 'The same as /readyz',
      responses: readiness,
      handle: ready,
    }),
    defineRoute('GET /workers', 'listWorkers', 'read', {
      query: pageQuery.extend({
        stale: flag().optional().describe('True: only stale workers. False: only the others.'),
      }),
      summary: 'List workers: when each was last seen, what it holds, and whether it seems to be gone',
      responses: { 200: pageResponse(workers, 'A page of workers, newest first unless `order=asc`.') },
      errors: ['BAD_OPTION'],
      handle: async ({ query, request: { url } }) => {
        const { stale } = query
        const asked = stale === undefined ? {} : ({ state: stale ? 'stale' : 'alive' } as const)
        const page = await hub.workerPage({ order: 'desc', ...pagingOf(query), ...asked })
        return pageAnswer({ workers: page.workers.map(workerJson) }, { query, url, page })
      },
    }),
    defineRoute('GET /metrics', 'metrics', 'read', {
      summary: 'Get metrics in the format of Prometheus',
      description:
        'Counters are those of this process. Queues are those of the whole database, at most ten seconds old. If the database is ' +
        'away, the answer is still 200, with `posthorn_database_up 0` and without the metrics that need the database.',
      responses: {
        200: { description: 'The metrics as text.', contentType: metricsType, schema: z.string() },
      },
      handle: async () => ({ status: 200, text: await hub.scrape(), contentType: metricsType }),
    }),
  ]
}

const workerJson = writerOf(worker, ({ name, seenAt }: Worker) => ({
  worker_id: name,
  last_seen_at: seenAt,
}))

async function readinessOf(hub: Hub, state: ServerState): Promise<Answer> {
  const status = state.isDraining() ? 'draining' : await hub.unready()
  if (status === undefined) return { status: 200, json: { status: 'ok' } }
  return { status: 503, json: { status }, headers: { 'retry-after': '1' } }
}
