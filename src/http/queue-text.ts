import type { Checkpoint, Queue, QueuedEvent, Recovery } from '../hub.ts'

/** A queue's document as JSON text, so that payloads go out as the bytes that came in. */
export function queueText(queue: Queue): string {
  const { name, status, via, storage, config, totals, checkpointId, nextCursor } = queue
  const { onFull, ...limits } = config
  const events = queue.events.map(queuedText).join(',')
  const rest = {
    checkpointId: idText(checkpointId),
    queueMetrics: {
      totalProcessed: totals.processed,
      totalErrors: totals.errors,
      avgProcessingTimeMs: totals.averageMs,
    },
    config: { ...limits, on_full: onFull },
    ...{ status, created_at: queue.createdAt, updated_at: queue.updatedAt },
    ...{ subscriber_id: queue.subscriptionId, via, storage, depth: queue.depth },
    durability: storage === 'memory' ? 'process' : 'durable',
    ...(!queue.isDepthExact && { depth_is_least: true }),
    ...{ backpressure: queue.backpressure, drained_at: queue.drainedAt },
    ...(nextCursor !== null && { next_cursor: nextCursor }),
  }
  return `{"id":${JSON.stringify(name)},"events":[${events}],${JSON.stringify(rest).slice(1)}`
}

function queuedText(queued: QueuedEvent): string {
  const { event, isPayloadLeftOut, retryCount, lastError, lastErrorAt, processingStartedAt } = queued
  // What its publisher said of it; its last error counts until there is one of ours.
  const given = (name: string) => event.attributes?.[name] ?? null
  const head = {
    eventId: String(event.id),
    ...present({ pattern: event.type ?? event.title, version: event.version, source: event.source }),
    timestamp: event.timestamp ?? event.createdAt,
  }
  const metadata = {
    ...present({ correlationId: event.correlationId, causationId: event.causationId }),
    ...present({ traceId: given('traceid') ?? event.traceparent?.split('-')[1] ?? null }),
    retryCount,
    ...present(
      lastError === null
        ? { lastError: given('lasterror'), lastErrorTime: given('lasterrortime') }
        : { lastError, lastErrorTime: lastErrorAt },
    ),
    ...present({ processingStartTime: processingStartedAt }),
  }
  const payload = isPayloadLeftOut ? '"payloadLeftOut":true' : `"payload":${event.payloadText}`
  return `${JSON.stringify(head).slice(0, -1)},${payload},"metadata":${JSON.stringify(metadata)}}`
}

export function checkpointOnWire({
  id,
  queue,
  checkpointId,
  eventCount,
  reason,
  createdAt,
}: Checkpoint): object {
  return {
    ...{ id, queue_id: queue, checkpoint_id: idText(checkpointId), event_count: eventCount, reason },
    created_at: createdAt,
  }
}

/** An event as a queue's document shows it. */
export function recoveryOnWire(recovery: Recovery): object {
  const { id, worker, checkpointId, eventsRecovered, startedAt, completedAt, status } = recovery
  return {
    ...{ id, checkpointId: idText(checkpointId), eventsRecovered, recoveryStartTime: startedAt },
    ...{ recoveryCompleteTime: completedAt, status, worker_id: worker },
  }
}

function idText(id: number | null): string | null {
  return id === null ? null : String(id)
}

/** A queue's document leaves out fields that have no value. */
function present(members: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))
}
