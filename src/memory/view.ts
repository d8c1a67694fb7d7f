import type { StoredEvent } from '../domain/stored-event.ts'
import type { Subscription } from '../domain/subscription.ts'
import type { MemoryQueue } from './memory-queue.ts'

/** What can be seen of a memory queue in the process that has it. */
export interface MemoryView {
  readonly subscription: Subscription
  readonly depth: number
  /** Deliveries are leased, or could be. */
  readonly isBusy: boolean
  /** Events in memory only: a crash would lose them now. */
  readonly unpersisted: number
  /** The last event below which all are settled; null: none was. */
  readonly checkpointId: number | null
  readonly figures: MemoryQueue['figures']
  events(eventsMax: number): readonly SeenDelivery[]
}

export interface SeenDelivery {
  readonly event: StoredEvent
  readonly attempts: number
  readonly failures: number
  readonly lastError: string | null
}

export function viewOf(queue: MemoryQueue): MemoryView {
  const { subscription, depth, ledger, figures } = queue
  return {
    subscription,
    depth,
    figures,
    unpersisted: ledger.unsaved,
    isBusy: (queue.hasReady && ['active', 'draining'].includes(subscription.status)) || figures.leased > 0,
    checkpointId: ledger.checkpoint === 0 ? null : ledger.checkpoint,
    events: (eventsMax) =>
      ledger
        .first(eventsMax)
        .map(({ event, attempts, failures, lastError }) => ({ event, attempts, failures, lastError })),
  }
}
