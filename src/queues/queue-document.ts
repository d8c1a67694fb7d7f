import { type CheckedPaging, checkPaging, type Paging, pagingOptions } from '../core/paging.ts'
import { type Reader, readAtOnce } from '../core/reader.ts'
import type { Database } from '../db/database.ts'
import { checkOptions } from '../domain/known-names.ts'
import { checkWatermark, type QueueConfig, type QueueStorage } from '../domain/queue-config.ts'
import type { Subscription, SubscriptionStatus } from '../domain/subscription.ts'
import { listFirstEvents, listQueueEvents, type QueuedPage, type QueuedPaging } from './queue-events.ts'
import * as statements from './queue-statements.ts'
import type { PressureLevel } from './queue-upkeep.ts'

/** A queue with its configuration, its state and its first events: the queue's document. */
export interface Queue extends QueuedPage {
  /** The subscription's number. */
  readonly no: number
  readonly subscriptionId: string
  readonly name: string
  readonly via: Subscription['via']
  readonly storage: QueueStorage
  readonly status: SubscriptionStatus
  /** With defaults filled in. Null: there is no limit. */
  readonly config: QueueConfig
  /** The event that was completed last; for a memory queue, the last event below which all are settled. */
  readonly checkpointId: number | null
  readonly totals: QueueTotals
  /** Deliveries that wait or are leased; beyond 10,000 there may be more than this. */
  readonly depth: number
  readonly isDepthExact: boolean
  readonly backpressure: PressureLevel
  /** When the queue had finished draining. */
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

/** Events on one page of a list, over all queues. */
const pageEventsMax = 10_000
const depthMax = 10_000
const noForm = /^\d{1,7}$/
const noMax = 2 ** 31 - 1

/** In the order in which their subscriptions were made, each with its first events. */
export async function listQueues(
  db: Database,
  paging: Paging,
  { eventsMax }: { readonly eventsMax: number },
): Promise<QueuePage> {
  checkOptions(paging, pagingOptions, 'a list of queues')
  const { limit, offset, after, order, cursorAt } = checkPaging('queues', paging, noForm)
  return readAtOnce(db, async (reader) => {
    const counted = await reader.query<{ count: number }>(statements.countQueues(db).text)
    const rows = await readQueues(reader, { after, order, limit: limit + 1, offset })
    const found = rows.slice(0, limit)
    const filled = found.filter(({ depth }) => depth > 0).map(({ no }) => no)
    const eventsEach = Math.floor(pageEventsMax / Math.max(1, filled.length))
    const events = await listFirstEvents(reader, filled, { limit: Math.min(eventsMax, eventsEach) })
    const queues = found.map((queue) => ({ ...queue, ...(events.get(queue.no) ?? noEvents) }))
    const last = queues.at(-1)
    const nextCursor = rows.length > limit && last !== undefined ? cursorAt(last.no) : null
    return { queues, total: counted.rows[0]?.count ?? 0, nextCursor }
  })
}

const noEvents: QueuedPage = { events: [], nextCursor: null }

/** Undefined: no queue has this name. */
export async function getQueue(db: Database, name: string, paging: QueuedPaging): Promise<Queue | undefined> {
  return readAtOnce(db, async (reader) => {
    const [queue] = await readQueues(reader, { name })
    return queue && { ...queue, ...(await listQueueEvents(reader, queue.no, paging)) }
  })
}

/** Undefined leaves an option as it is; null takes a limit away. Returns false if there is no such queue. */
export async function configureQueue(
  db: Database,
  name: string,
  changes: { readonly [Key in keyof QueueConfig]?: QueueConfig[Key] | undefined },
): Promise<boolean> {
  return db.transaction(async (tx) => {
    const { rows } = await tx.query<QueueConfig>(statements.holdQueueConfig(db).text, [name])
    if (rows[0] === undefined) return false
    const given = Object.entries(changes).filter(([, value]) => value !== undefined)
    const config: QueueConfig = { ...rows[0], ...Object.fromEntries(given) }
    checkWatermark(config)
    await tx.run(statements.configureQueue(db), [
      name,
      config.maxQueueDepth,
      config.highWatermark,
      config.onFull,
      config.batchSize,
      config.processingInterval,
      config.persistenceThreshold,
    ])
    return true
  })
}

/** The one with the name, or those after a number. */
type QueuesWanted = Partial<Omit<CheckedPaging, 'cursorAt'>> & { readonly name?: string }

async function readQueues(
  reader: Reader,
  { name, after = null, order = 'asc', limit = 1, offset = 0 }: QueuesWanted,
): Promise<Omit<Queue, keyof QueuedPage>[]> {
  const above = order === 'asc' && after !== null ? Number(after) : -1
  const below = order === 'desc' && after !== null ? Number(after) : noMax
  const values = [name ?? null, above, below, order === 'asc' ? 1 : -1, limit, offset, depthMax]
  const { rows } = await reader.query<QueueRow>(statements.readQueues(reader).text, values)
  return rows.map(fromRow)
}

function fromRow(row: QueueRow): Omit<Queue, keyof QueuedPage> {
  const { config, processed, errors, timed, executionMs, backpressure, ...queue } = row
  const { on_full: onFull, storage: _, ...limits } = config
  return {
    ...queue,
    // Upkeep measures only queues in the database.
    backpressure: queue.storage === 'memory' ? pressureAt(queue.depth, limits) : backpressure,
    config: { ...limits, onFull },
    totals: { processed, errors, averageMs: timed === 0 ? 0 : Math.round(executionMs / timed) },
    isDepthExact: queue.depth < depthMax,
  }
}

type Limits = Pick<QueueConfig, 'maxQueueDepth' | 'highWatermark'>

function pressureAt(depth: number, { maxQueueDepth, highWatermark }: Limits): PressureLevel {
  if (maxQueueDepth !== null && depth >= maxQueueDepth) return 'full'
  return highWatermark !== null && depth >= highWatermark ? 'high' : 'none'
}

interface QueueRow extends Omit<Queue, keyof QueuedPage | 'config' | 'totals' | 'isDepthExact'> {
  readonly config: Omit<QueueConfig, 'onFull'> & {
    readonly on_full: QueueConfig['onFull']
    readonly storage: QueueStorage
  }
  readonly processed: number
  readonly errors: number
  /** Attempts whose duration is known. */
  readonly timed: number
  readonly executionMs: number
}
