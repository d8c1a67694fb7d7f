import type { Hub } from '../../hub.ts'
import type { Route } from '../route.ts'
import { deadLetterRoutes } from './dead-letter-routes.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { docsRoutes } from './docs-routes.ts'
import { manageRoutes } from './event-action-routes.ts'
import { eventRoutes } from './event-routes.ts'
import { probeRoutes, type ServerState } from './health-routes.ts'
import { laneRoutes } from './lane-routes.ts'
import { subscribeRoutes } from './lease-routes.ts'
import { metricsRoutes } from './metrics-routes.ts'
import { publishRoutes } from './publish-routes.ts'
import { queueRoutes } from './queue-routes.ts'
import { replayRoutes } from './replay-routes.ts'
import { settleRoutes } from './settle-routes.ts'
import { storageRoutes } from './storage-routes.ts'
import { subscriberRoutes } from './subscriber-routes.ts'

export type { ServerState }

/** Every route there is. */
export function apiRoutes(hub: Hub, state: ServerState): Route[] {
  const routes: Route[] = [
    ...publishRoutes(hub),
    ...subscribeRoutes(hub),
    ...settleRoutes(hub),
    ...eventRoutes(hub),
    ...manageRoutes(hub),
    ...subscriberRoutes(hub),
    ...replayRoutes(hub),
    ...laneRoutes(hub),
    ...queueRoutes(hub),
    ...deliveryRoutes(hub),
    ...deadLetterRoutes(hub),
    ...storageRoutes(hub),
    ...probeRoutes(hub, state),
    ...metricsRoutes(() => hub.scrape()),
    ...docsRoutes(() => routes, state),
  ]
  return routes
}
