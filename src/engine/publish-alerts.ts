import type { Core } from '../core/core.ts'
import type { Publisher } from './publisher.ts'
import { isRouted } from './routes.ts'

/** Publishes alerts as operational events, if a subscription wants events of their type. */
export function publishAlerts({ db, signals }: Pick<Core, 'db' | 'signals'>, publisher: Publisher): void {
  signals.on('alertRaised', async (event) => {
    if (await isRouted(db, event.type as string)) await publisher.publish(event)
  })
}
