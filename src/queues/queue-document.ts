import { checkPaging, type Paging, pagingOptions } from '../core/paging.ts'
import { readAtOnce } from '../core/reader.ts'
import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { checkWatermark, type QueueConfig, type QueueStorage } from '../domain/queue-config.ts'
import type { Subscription, SubscriptionStatus } from '../domain/subscription.ts'
import type { PressureLevel } from './pressure.ts'
import { listFirstEvents, listQueueEvents, type QueuedPage, type QueuedPaging } from './queue-events.ts'

/** A queue with its configuration, its state and its first events: the queue's document. */
export interface Queue extends QueuedPage {
  /** The subscription's. */
  readonly no: number
  readonly subscriptionId: string
  readonly name: string
  readonly via: Subscription['via']
  readonly storage: QueueStorage
  readonly status: SubscriptionStatus
  /** As it applies: what is not set has the usual value, or null if there is no limit. */
  readonly config: QueueConfig
  /** The event that was completed last; of a queue in memory, the last below which all are settled. */
  readonly checkpointId: number | null
  readonly totals: QueueTotals
  /** Deliveries that wait or are leased; beyond 10,000 it may be more. */
  readonly depth: number
  readonly isDepthExact: boolean
  readonly backpressure: PressureLevel
  /** When it had finished what it was told to drain. */
  readonly drainedAt: Date | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

export interface QueueTotals {
  readonly processed: number
  readonly errors: number
  readonly averageMs: number
}

export interface QueuePage {
  readonly queues: readonly Queue[]
  readonly total: number
  readonly nextCursor: string | null
}

/** How many events one page shows at most, of all its queues together. */
const pageEventsMax = 10_000

/** In the order in which their subscriptions were made, each with its first events. */
export async function listQueues(
  db: Database,
  paging: Paging,
  { eventsMax }: { readonly eventsMax: number },
): Promise<QueuePage> {
  checkOptions(paging, pagingOptions, 'a list of queues')
  const { limit, offset, after, order, cursorAt } = checkPaging('queues', paging, noForm)
  return readAtOnce(db, async (reader) => {
    const [counted] = await reader.run<[total: number]>(countStatement(db), [])
    const start = after === null ? beforeAll[order] : Number(after)
    const rows = await reader.run<QueueRow>(pageStatements[order](db), [start, limit + 1, offset])
    const found = rows.slice(0, limit).map(fromRow)
    const filled = found.filter(({ depth }) => depth > 0).map(({ no }) => no)
    const each = Math.floor(pageEventsMax / Math.max(1, filled.length))
    const events = await listFirstEvents(reader, filled, { limit: Math.min(eventsMax, each) })
    const queues = found.map((queue) => ({ ...queue, ...(events.get(queue.no) ?? noEvents) }))
    const last = queues.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.no) : null
    return { queues, total: counted?.[0] ?? 0, nextCursor }
  })
}

const noEvents: QueuedPage = { events: [], nextCursor: null }
const noForm = /^\d{1,7}$/
const beforeAll = { asc: -1, desc: 2 ** 31 - 1 }

/** By name. Undefined: there is none. */
export async function getQueue(db: Database, name: string, paging: QueuedPaging): Promise<Queue | undefined> {
  return readAtOnce(db, async (reader) => {
    const [row] = await reader.run<QueueRow>(getStatement(db), [name])
    if (row === undefined) return undefined
    const queue = fromRow(row)
    return { ...queue, ...(await listQueueEvents(reader, queue.no, paging)) }
  })
}

/** What is undefined stays as it is; null takes a limit away. Returns false if there is no such queue. */
export async function configureQueue(
  db: Database,
  name: string,
  changes: { readonly [Key in keyof QueueConfig]?: QueueConfig[Key] | undefined },
): Promise<boolean> {
  return db.transaction(async (tx) => {
    const before = await holdConfig(tx, db, name)
    if (before === undefined) return false
    const given = Object.entries(changes).filter(([, value]) => value !== undefined)
    const config: QueueConfig = { ...before, ...Object.fromEntries(given) }
    checkWatermark(config)
    await tx.run(configureStatement(db), [
      ...[name, config.maxQueueDepth, config.highWatermark, config.onFull],
      ...[config.batchSize, config.processingInterval, config.persistenceThreshold],
    ])
    return true
  })
}

async function holdConfig(
  tx: Connection,
  db: { readonly schema: string },
  name: string,
): Promise<QueueConfig | undefined> {
  const [row] = await tx.run<ConfigRow>(holdStatement(db), [name])
  if (row === undefined) return undefined
  const [maxQueueDepth, highWatermark, onFull, batchSize, processingInterval, persistenceThreshold] = row
  return { maxQueueDepth, highWatermark, onFull, batchSize, processingInterval, persistenceThreshold }
}

function fromRow(row: QueueRow): Omit<Queue, keyof QueuedPage> {
  const [no, subscriptionId, name, via, storage, status, config, lastId, ...rest] = row
  const [processed, errors, timed, executionMs, depth, backpressure, drainedAt, createdAt, updatedAt] = rest
  const { on_full: onFull, storage: _, ...limits } = config
  return {
    ...{ no, subscriptionId, name, via, storage, status, drainedAt, createdAt, updatedAt },
    // Upkeep measures only what is in the database.
    backpressure: storage === 'memory' ? pressureAt(depth, limits) : backpressure,
    config: { ...limits, onFull },
    checkpointId: lastId,
    totals: { processed, errors, averageMs: timed === 0 ? 0 : Math.round(executionMs / timed) },
    depth,
    isDepthExact: depth < depthMax,
  }
}

const depthMax = 10_000

type Limits = Pick<QueueConfig, 'maxQueueDepth' | 'highWatermark'>

function pressureAt(depth: number, { maxQueueDepth, highWatermark }: Limits): PressureLevel {
  if (maxQueueDepth !== null && depth >= maxQueueDepth) return 'full'
  return highWatermark !== null && depth >= highWatermark ? 'high' : 'none'
}

const select = `select s.no, s.id, s.name, s.via, s.storage, s.status, __schema__.queue_config(s),
    case when s.storage = 'memory' then nullif(m.checkpoint, 0) else t.last_id end, t.processed,
    t.errors, t.timed, t.execution_ms, __schema__.queue_depth(s.no, ${depthMax}), coalesce(p.level, 'none'), s.drained_at,
    s.created_at, s.updated_at
  from __schema__.subscriptions s
  join __schema__.queue_totals t on t.subscription = s.no
  left join __schema__.queue_pressure p on p.subscription = s.no
  left join __schema__.memory_queues m on m.subscription = s.no
  where s.status <> 'deleted'`

const getStatement = defineStatement('get_queue', `${select} and s.name = $1`)
const pageStatements = {
  asc: defineStatement('list_queues', `${select} and s.no > $1 order by s.no limit $2 offset $3`),
  desc: defineStatement('list_queues_desc', `${select} and s.no < $1 order by s.no desc limit $2 offset $3`),
}
const countStatement = defineStatement(
  'count_queues',
  `select count(*)::int from __schema__.subscriptions s where s.status <> 'deleted'`,
)

const holdStatement = defineStatement(
  'hold_queue',
  `select s.max_depth, s.high_watermark, s.on_full, s.batch_size, s.processing_interval_ms, s.persistence_threshold
  from __schema__.subscriptions s
  where s.name = $1 and s.status <> 'deleted'
  for update`,
)

const configureStatement = defineStatement(
  'configure_queue',
  `update __schema__.subscriptions s
  set max_depth = $2, high_watermark = $3, on_full = $4, batch_size = $5, processing_interval_ms = $6,
    persistence_threshold = $7, updated_at = __schema__.clock()
  where s.name = $1 and s.status <> 'deleted'`,
)

type ConfigRow = [
  maxQueueDepth: number | null,
  highWatermark: number | null,
  onFull: QueueConfig['onFull'],
  batchSize: number | null,
  processingInterval: number | null,
  persistenceThreshold: number | null,
]

type QueueRow = [
  no: number,
  id: string,
  name: string,
  via: Subscription['via'],
  storage: QueueStorage,
  status: SubscriptionStatus,
  config: Omit<QueueConfig, 'onFull'> & { on_full: QueueConfig['onFull']; storage: QueueStorage },
  lastId: number | null,
  processed: number,
  errors: number,
  timed: number,
  executionMs: number,
  depth: number,
  backpressure: PressureLevel,
  drainedAt: Date | null,
  createdAt: Date,
  updatedAt: Date,
]
