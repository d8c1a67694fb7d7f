import type { Hub } from '../../hub.ts'
import type { Route } from '../route.ts'
import { deadLetterRoutes } from './dead-letter-routes.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { docsRoutes } from './docs-routes.ts'
import { eventActionRoutes } from './event-action-routes.ts'
import { eventRoutes } from './event-routes.ts'
import { healthRoutes, type ServerState } from './health-routes.ts'
import { laneRoutes } from './lane-routes.ts'
import { leaseRoutes } from './lease-routes.ts'
import { publishRoutes } from './publish-routes.ts'
import { queueRoutes } from './queue-routes.ts'
import { replayRoutes } from './replay-routes.ts'
import { settleRoutes } from './settle-routes.ts'
import { storageRoutes } from './storage-routes.ts'
import { subscriberRoutes } from './subscriber-routes.ts'

/** All routes of the HTTP API, in the order in which they are documented. */
export function apiRoutes(hub: Hub, state: ServerState): Route[] {
  const routes: Route[] = [
    ...publishRoutes(hub),
    ...leaseRoutes(hub),
    ...settleRoutes(hub),
    ...eventRoutes(hub),
    ...eventActionRoutes(hub),
    ...subscriberRoutes(hub),
    ...replayRoutes(hub),
    ...laneRoutes(hub),
    ...queueRoutes(hub),
    ...deliveryRoutes(hub),
    ...deadLetterRoutes(hub),
    ...storageRoutes(hub),
    ...healthRoutes(hub, state),
    ...docsRoutes(() => routes, state),
  ]
  return routes
}
