import type { Core } from '../core/core.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import { Alerts } from './alerts.ts'
import type { Burial } from './hub-events.ts'
import {
  guard,
  observeMemory,
  observePublished,
  observePull,
  observePush,
  observeRetention,
  observeRunner,
  observeUpkeep,
  tellBurial,
} from './observers.ts'
import { observePickup } from './pickup.ts'

/** The subscriptions that this process serves, by number. */
interface Served {
  get(subscriptionNumber: number): Subscription | undefined
}

export type Observation = ReturnType<typeof createObservation>

/** Turns what the services tell into log lines, metrics, events of the hub and alerts. */
export function createObservation(core: Core, served: Served) {
  const { log, metrics, signals } = core
  const alerts = new Alerts({
    log,
    metrics,
    now: () => performance.now(),
    publish: (event) => signals.emitAndWait('alertRaised', event),
  })
  const hooks = { ...core, alerts, subscription: (no: number) => served.get(no) }
  observePublished(core)
  return {
    alerts,
    buried: guard((burial: Burial) => tellBurial(hooks, burial), log),
    leased: (run: LeasedRun, leaseMs: number) => observePickup(metrics, run, leaseMs),
    pullSettled: observePull(hooks),
    runner: observeRunner(hooks),
    push: observePush(hooks),
    memory: observeMemory(hooks),
    retention: observeRetention(hooks),
    upkeep: observeUpkeep(hooks),
  }
}
