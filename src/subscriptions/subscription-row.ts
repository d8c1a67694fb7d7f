import { memoryQueueDefaults, type QueueConfig } from '../domain/queue-config.ts'
import type { Subscription } from '../domain/subscription.ts'

/** A row of the view `subscription_rows` as a subscription: a memory queue always has a bound. */
export function subscriptionFromRow<Row extends Subscription>(row: Row): Row {
  return row.storage === 'memory' ? { ...row, queue: boundedQueue(row.queue) } : row
}

function boundedQueue(queue: QueueConfig): QueueConfig {
  const maxQueueDepth = queue.maxQueueDepth ?? memoryQueueDefaults.maxQueueDepth
  return {
    ...queue,
    maxQueueDepth,
    highWatermark: queue.highWatermark ?? Math.min(memoryQueueDefaults.highWatermark, maxQueueDepth),
    persistenceThreshold: queue.persistenceThreshold ?? memoryQueueDefaults.persistenceThreshold,
  }
}
