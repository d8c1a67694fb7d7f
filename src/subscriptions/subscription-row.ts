import {
  memoryQueueDefaults,
  type OnFull,
  type QueueConfig,
  type QueueStorage,
} from '../domain/queue-config.ts'
import type { Subscription, SubscriptionStatus } from '../domain/subscription.ts'

export const subscriptionColumns = `s.no, s.id, s.name, s.via, s.status, s.types, s.tags, s.filter, s.key_pointer, s.on_exhausted, s.retry,
    s.lease_ms, s.timeout_ms, s.max_concurrency, s.rate_per_second, s.key_concurrency, s.ramp, s.storage, s.max_depth,
    s.high_watermark, s.on_full, s.batch_size, s.processing_interval_ms, s.persistence_threshold`

export type SubscriptionRow = [
  no: number,
  id: string,
  name: string,
  via: Subscription['via'],
  status: SubscriptionStatus,
  types: string[],
  tags: string[] | null,
  filter: Subscription['filter'],
  orderingKey: string | null,
  onExhausted: Subscription['onExhausted'],
  retry: Subscription['retry'],
  leaseMs: number,
  timeoutMs: number | null,
  maxConcurrency: number | null,
  ratePerSecond: number | null,
  keyConcurrency: number | null,
  ramp: number | null,
  storage: QueueStorage,
  maxQueueDepth: number | null,
  highWatermark: number | null,
  onFull: OnFull | null,
  batchSize: number | null,
  processingInterval: number | null,
  persistenceThreshold: number | null,
]

export function subscriptionFromRow(row: SubscriptionRow): Subscription {
  const [no, id, name, via, status, types, tags, filter, orderingKey, onExhausted, ...rest] = row
  const [retry, leaseMs, timeoutMs, ...limits] = rest
  const [maxConcurrency, ratePerSecond, keyConcurrency, ramp, storage, ...config] = limits
  const [maxQueueDepth, highWatermark, onFull, batchSize, processingInterval, persistenceThreshold] = config
  const queue = { maxQueueDepth, highWatermark, onFull, batchSize, processingInterval, persistenceThreshold }
  return {
    ...{
      no,
      id,
      name,
      via,
      status,
      types,
      tags,
      filter,
      orderingKey,
      onExhausted,
      retry,
      leaseMs,
      timeoutMs,
    },
    ...{ maxConcurrency, ratePerSecond, keyConcurrency, ramp, storage },
    queue: storage === 'memory' ? inMemory(queue) : queue,
  }
}

/** Memory is never without a bound. */
function inMemory(queue: QueueConfig): QueueConfig {
  const maxQueueDepth = queue.maxQueueDepth ?? memoryQueueDefaults.maxQueueDepth
  return {
    ...queue,
    maxQueueDepth,
    highWatermark: queue.highWatermark ?? Math.min(memoryQueueDefaults.highWatermark, maxQueueDepth),
    persistenceThreshold: queue.persistenceThreshold ?? memoryQueueDefaults.persistenceThreshold,
  }
}
