import { z } from 'zod'
import { defineRoute, type Route } from '../route.ts'

const contentType = 'text/plain; version=0.0.4; charset=utf-8'

export function metricsRoutes(scrape: () => Promise<string>): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/metrics', name: 'metrics', scope: 'read' },
      summary: 'Metrics, as Prometheus reads them',
      description:
        'Counters are of this process, queues of the whole database, as of at most ten seconds ago. Without the database the ' +
        'answer is still 200, with `posthorn_database_up 0` and without what the database knows.',
      responses: { 200: { description: 'Prometheus text.', contentType, schema: z.string() } },
      handle: async () => ({ status: 200, text: await scrape(), contentType }),
    }),
  ]
}
