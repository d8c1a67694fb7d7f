import type { Hub } from '../../hub.ts'
import type { Route } from '../route.ts'
import { deadLetterRoutes } from './dead-letters.ts'
import { deliveryRoutes } from './deliveries.ts'
import { docsRoutes } from './docs.ts'
import { eventRoutes } from './events.ts'
import { laneRoutes } from './lanes.ts'
import { manageRoutes } from './manage.ts'
import { metricsRoutes } from './metrics.ts'
import { probeRoutes, type ServerState } from './probes.ts'
import { publishRoutes } from './publish.ts'
import { queueRoutes } from './queues.ts'
import { replayRoutes } from './replays.ts'
import { settleRoutes } from './settle.ts'
import { storageRoutes } from './storage.ts'
import { subscribeRoutes } from './subscribe.ts'
import { subscriberRoutes } from './subscribers.ts'

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
