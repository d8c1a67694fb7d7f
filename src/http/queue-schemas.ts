import { z } from 'zod'
import { cursor } from './delivery-schemas.ts'
import { answerObject, between, moment, pageFields, pageQuery, time, whole } from './schemas.ts'

export const queueId = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,100}$/)
  .describe('The name of the queue, which is the name of its subscription: `work`, `billing`.')

const config = {
  maxQueueDepth: between(1, 1_000_000)
    .nullable()
    .describe('The most deliveries that may wait; null: no limit.'),
  highWatermark: between(1, 1_000_000)
    .nullable()
    .describe('At this depth publishers get the header `Posthorn-Backpressure`; null: never.'),
  on_full: z
    .enum(['refuse', 'hold'])
    .nullable()
    .describe(
      'At `maxQueueDepth`: `refuse` answers publishers with 429, `hold` stores the event and raises an alert.',
    ),
  batchSize: between(1, 10_000)
    .nullable()
    .describe('The most deliveries that a process takes at once; null: the default.'),
  processingInterval: between(0, 86_400_000)
    .nullable()
    .describe('Milliseconds that a process waits before it takes more; null: it does not wait.'),
  persistenceThreshold: between(1, 1_000_000)
    .nullable()
    .describe(
      'For memory queues: how many deliveries may be in memory only. It has no effect on a queue in the database.',
    ),
}

export const configChange = z.strictObject(config).partial()

const queuedEvent = answerObject('QueuedEvent', {
  eventId: z.string(),
  pattern: z.string().optional().describe('The type of the event, or its title if it has no type.'),
  version: z.string().optional(),
  source: z.object({}).loose().optional(),
  timestamp: time,
  payload: z.unknown().optional(),
  payloadLeftOut: z
    .literal(true)
    .optional()
    .describe('True: the payload is left out, since the page is large enough without it.'),
  metadata: z.object({
    correlationId: z.string().optional(),
    causationId: z.string().optional(),
    traceId: z.string().optional(),
    retryCount: z.int(),
    lastError: z.string().optional(),
    lastErrorTime: z
      .string()
      .optional()
      .describe('When the latest error occurred; until there was one here, what the publisher said.'),
    processingStartTime: time.optional(),
  }),
})

export const queue = answerObject('Queue', {
  id: z.string(),
  events: z.array(queuedEvent).describe('Events that wait or are being attempted.'),
  checkpointId: z.string().nullable().describe('The id of the event processed last; null if there was none.'),
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
    .describe('`process`: if the process crashes, what came since it last wrote to the database is lost.'),
  depth: z.int().describe('Deliveries that wait or are leased.'),
  depth_is_least: z
    .literal(true)
    .optional()
    .describe('True: `depth` was not counted to the end, so there may be more.'),
  backpressure: z.enum(['none', 'high', 'full']),
  drained_at: time
    .nullable()
    .describe('When everything that waited at the start of the drain was finished; null until then.'),
  next_cursor: z.string().optional().describe('Send it as `cursor` to get the next events.'),
})
export const queues = answerObject('Queues', { queues: z.array(queue), ...pageFields })

export const queueQuery = z.strictObject({ limit: whole(0, 1000).optional(), cursor: cursor.optional() })
export const queuesQuery = pageQuery.extend({
  events: whole(0, 100)
    .optional()
    .describe(
      'How many events of each queue are shown: 10 by default, 10,000 over all queues. Payloads beyond 4 MB in all are left out.',
    ),
})

export const checkpointsQuery = pageQuery.extend({
  since: moment().optional(),
  until: moment().optional(),
})
export const checkpoint = answerObject('Checkpoint', {
  id: z.uuid(),
  queue_id: z.string(),
  checkpoint_id: z.string().nullable(),
  event_count: z.int().describe('Deliveries processed by then.'),
  reason: z.enum(['requested', 'interval', 'stop', 'threshold']),
  created_at: time,
})
const { total, ...untotalled } = pageFields
export const checkpoints = answerObject('Checkpoints', { checkpoints: z.array(checkpoint), ...untotalled })
export const recovery = answerObject('Recovery', {
  id: z.uuid(),
  checkpointId: z.string().nullable(),
  eventsRecovered: z.int(),
  recoveryStartTime: time,
  recoveryCompleteTime: time.nullable(),
  status: z.enum(['running', 'completed', 'failed']),
  worker_id: z.string(),
})
export const recoveries = answerObject('Recoveries', { recoveries: z.array(recovery), ...untotalled })
