import type { Checkpoint, Queue, QueuedEvent, Recovery } from '../hub.ts'
import { writerOf } from './answer-writer.ts'
import * as schemas from './queue-schemas.ts'

/** A queue as JSON text, not as an object, so that payloads go out as the bytes that came in. */
export function queueText(queue: Queue): string {
  const { onFull, ...limits } = queue.config
  const rest = {
    checkpointId: idText(queue.checkpointId),
    queueMetrics: {
      totalProcessed: queue.totals.processed,
      totalErrors: queue.totals.errors,
      avgProcessingTimeMs: queue.totals.averageMs,
    },
    config: { ...limits, on_full: onFull },
    status: queue.status,
    created_at: queue.createdAt,
    updated_at: queue.updatedAt,
    subscriber_id: queue.subscriptionId,
    via: queue.via,
    storage: queue.storage,
    depth: queue.depth,
    durability: queue.storage === 'memory' ? 'process' : 'durable',
    ...(!queue.isDepthExact && { depth_is_least: true }),
    backpressure: queue.backpressure,
    drained_at: queue.drainedAt,
    ...(queue.nextCursor !== null && { next_cursor: queue.nextCursor }),
  }
  const events = queue.events.map(queuedText).join(',')
  return `{"id":${JSON.stringify(queue.name)},"events":[${events}],${JSON.stringify(rest).slice(1)}`
}

function queuedText(queued: QueuedEvent): string {
  const { event, isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt } = queued
  const published = (name: string) => event.attributes?.[name] ?? null
  const head = present({
    eventId: String(event.id),
    pattern: event.type ?? event.title,
    version: event.version,
    source: event.source,
    timestamp: event.timestamp ?? event.createdAt,
  })
  const metadata = present({
    correlationId: event.correlationId,
    causationId: event.causationId,
    traceId: published('traceid') ?? event.traceparent?.split('-')[1] ?? null,
    retryCount,
    // The error that the publisher sent along counts until an attempt fails here.
    lastError: lastError ?? published('lasterror'),
    lastErrorTime: lastError === null ? published('lasterrortime') : lastErrorAt,
    processingStartTime: processingStartedAt,
  })
  const payload = isPayloadLeftOut ? '"payloadLeftOut":true' : `"payload":${event.payloadText}`
  return `${JSON.stringify(head).slice(0, -1)},${payload},"metadata":${JSON.stringify(metadata)}}`
}

export const checkpointJson = writerOf(schemas.checkpoint, ({ queue, checkpointId }: Checkpoint) => ({
  queue_id: queue,
  checkpoint_id: idText(checkpointId),
}))

export const recoveryJson = writerOf(schemas.recovery, (recovery: Recovery) => ({
  checkpointId: idText(recovery.checkpointId),
  recoveryStartTime: recovery.startedAt,
  recoveryCompleteTime: recovery.completedAt,
  worker_id: recovery.worker,
}))

function idText(id: number | null): string | null {
  return id === null ? null : String(id)
}

/** The document of a queue leaves out fields that have no value. */
function present(members: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
}
