import { z } from 'zod'
import { cursor } from './delivery-schemas.ts'
import { moment, named, pageFields, pageQuery, time, whole } from './schemas.ts'

export const queueId = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,100}$/)
  .describe('The name of its subscription: `work`, `billing`.')

const between = (min: number, max: number) => z.int().min(min).max(max)

const config = {
  maxQueueDepth: between(1, 1_000_000).nullable().describe('Null: no limit.'),
  highWatermark: between(1, 1_000_000)
    .nullable()
    .describe('From this depth on publishers are told by `Posthorn-Backpressure`.'),
  on_full: z
    .enum(['refuse', 'hold'])
    .nullable()
    .describe('At `maxQueueDepth`: publishers get 429, or what they publish is stored and alerted.'),
  batchSize: between(1, 10_000).nullable().describe('What a process takes at once, at most.'),
  processingInterval: between(0, 86_400_000).nullable().describe('Milliseconds until it takes more.'),
  persistenceThreshold: between(1, 1_000_000)
    .nullable()
    .describe('Memory queues: how many may be in memory only. It has no effect on a queue in the database.'),
}

export const configChange = z.strictObject({
  maxQueueDepth: config.maxQueueDepth.optional(),
  highWatermark: config.highWatermark.optional(),
  on_full: config.on_full.optional(),
  batchSize: config.batchSize.optional(),
  processingInterval: config.processingInterval.optional(),
  persistenceThreshold: config.persistenceThreshold.optional(),
})

const queuedEvent = named(
  'QueuedEvent',
  z.object({
    eventId: z.string(),
    pattern: z.string().optional().describe('Its type, or its title if it has none.'),
    version: z.string().optional(),
    source: z.object({}).loose().optional(),
    timestamp: time,
    payload: z.unknown().optional(),
    payloadLeftOut: z.literal(true).optional().describe('What came before it on the page was large enough.'),
    metadata: z.object({
      correlationId: z.string().optional(),
      causationId: z.string().optional(),
      traceId: z.string().optional(),
      retryCount: z.int(),
      lastError: z.string().optional(),
      lastErrorTime: z
        .string()
        .optional()
        .describe('ISO 8601, or as published until there is an error here.'),
      processingStartTime: time.optional(),
    }),
  }),
)

export const queue = named(
  'Queue',
  z.object({
    id: z.string(),
    events: z.array(queuedEvent).describe('What waits or is being attempted.'),
    checkpointId: z.string().nullable().describe('The event that was processed last.'),
    queueMetrics: z.object({
      totalProcessed: z.int(),
      totalErrors: z.int(),
      avgProcessingTimeMs: z.number(),
    }),
    config: z.object(config),
    status: z.enum(['active', 'paused', 'draining', 'suspended']),
    created_at: time,
    updated_at: time,
    subscriber_id: z.uuid(),
    via: z.enum(['handler', 'pull', 'webhook']),
    storage: z.enum(['database', 'memory']),
    durability: z
      .enum(['durable', 'process'])
      .describe('`process`: what came since the last persist is lost if its process crashes.'),
    depth: z.int().describe('Deliveries that wait or are leased.'),
    depth_is_least: z.literal(true).optional().describe('There may be more than were counted.'),
    backpressure: z.enum(['none', 'high', 'full']),
    drained_at: time.nullable().describe('When all that waited as it began to drain was finished.'),
    next_cursor: z.string().optional().describe('For the next events.'),
  }),
)
export const queues = named('Queues', z.object({ queues: z.array(queue), ...pageFields }))

export const queueQuery = z.strictObject({ limit: whole(0, 1000).optional(), cursor: cursor.optional() })
export const queuesQuery = z.strictObject({
  ...pageQuery.shape,
  events: whole(0, 100)
    .optional()
    .describe(
      'How many events of each are shown, 10,000 in all. Default 10. Payloads beyond 4 MB in all are left out.',
    ),
})

export const recoveriesQuery = z.strictObject({ ...pageQuery.shape })
export const checkpointsQuery = z.strictObject({
  ...pageQuery.shape,
  since: moment().optional(),
  until: moment().optional(),
})
export const checkpoint = named(
  'Checkpoint',
  z.object({
    id: z.uuid(),
    queue_id: z.string(),
    checkpoint_id: z.string().nullable(),
    event_count: z.int().describe('Processed by then.'),
    reason: z.enum(['requested', 'interval', 'stop', 'threshold']),
    created_at: time,
  }),
)
const { limit, offset } = pageFields
export const checkpoints = named(
  'Checkpoints',
  z.object({ checkpoints: z.array(checkpoint), limit, offset, next_cursor: z.string().optional() }),
)
export const recovery = named(
  'Recovery',
  z.object({
    id: z.uuid(),
    checkpointId: z.string().nullable(),
    eventsRecovered: z.int(),
    recoveryStartTime: time,
    recoveryCompleteTime: time.nullable(),
    status: z.enum(['running', 'completed', 'failed']),
    worker_id: z.string(),
  }),
)
export const recoveries = named(
  'Recoveries',
  z.object({ recoveries: z.array(recovery), limit, offset, next_cursor: z.string().optional() }),
)
