import type { MemoryQueue } from './memory-queue.ts'

/** What can be seen of a memory queue in the process that has it. */
export type MemoryView = ReturnType<typeof viewOf>

export function viewOf({ subscription, depth, figures, hasReady, ledger }: MemoryQueue) {
  const isServed = subscription.status === 'active' || subscription.status === 'draining'
  return {
    subscription,
    depth,
    figures,
    /** Events in memory only: a crash would lose them now. */
    unpersisted: ledger.unsaved,
    /** Deliveries are leased, or could be. */
    isBusy: (hasReady && isServed) || figures.leased > 0,
  }
}
