import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { allOthers, toldApartMax } from '../domain/hub-stats.ts'
import { AttemptTally } from './attempt-tally.ts'
import { sumUp } from './synonym.ts'

const shortBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const requestBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const waitBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120, 600, 3600]
const attemptBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 900]

/** Every metric in one table: name, labels, what it counts. docs/reference/metrics.md lists the same. */
export const metricTable = {
  published: counter('posthorn_events_published_total', [], 'Events stored by this process.'),
  unrouted: counter(
    'posthorn_events_unrouted_total',
    [],
    'Events stored by this process that no subscription wanted.',
  ),
  refused: counter(
    'posthorn_publishes_refused_total',
    ['reason'],
    'Publishes that were refused: a queue was full, draining, or in the memory of another process.',
  ),
  attempts: counter(
    'posthorn_attempts_total',
    ['subscription', 'settlement'],
    'Attempts settled by this process, by what became of the delivery.',
  ),
  leasesLost: counter(
    'posthorn_leases_lost_total',
    ['subscription'],
    'Deliveries whose lease this process lost before it could settle them.',
  ),
  leasesExpired: counter(
    'posthorn_leases_expired_total',
    [],
    'Runs that upkeep in this process took back from workers that had vanished.',
  ),
  expired: counter(
    'posthorn_deliveries_expired_total',
    [],
    'Deliveries that upkeep in this process ended because their time was over.',
  ),
  wakeUpsLost: counter(
    'posthorn_wakeups_lost_total',
    ['kind'],
    'Lanes, gates and resumed queues with something waiting that nothing would have woken; upkeep woke them. Not 0: a defect.',
  ),
  alerts: counter(
    'posthorn_alerts_total',
    ['alert'],
    'Alerts raised, those held back by the rate limit included.',
  ),
  pruned: counter(
    'posthorn_pruned_total',
    ['table'],
    'Rows that this process removed because their time was over, by table.',
  ),
  pruneFailures: counter(
    'posthorn_prune_failures_total',
    [],
    'Steps of pruning that failed in this process: nothing is removed that could not be archived.',
  ),
  storageBytes: gauge(
    'posthorn_storage_bytes',
    ['table'],
    'Bytes of each table in the database, with its indexes.',
  ),
  webhooks: counter(
    'posthorn_webhooks_total',
    ['result'],
    'Requests sent by this process, by class of the answer (2xx) or of what failed (refused).',
  ),
  underWay: gauge('posthorn_attempts_under_way', [], 'Attempts whose handler is running in this process.'),
  attemptsOverdue: gauge(
    'posthorn_attempts_overdue',
    [],
    'Attempts that were picked longer ago than overdueAfterMs and have not ended.',
  ),
  workers: gauge(
    'posthorn_workers',
    ['state'],
    'Workers that are alive, and those that went silent lately or let a lease lapse.',
  ),
  executionSeconds: histogram(
    'posthorn_attempt_duration_seconds',
    ['subscription'],
    attemptBuckets,
    'How long attempts took.',
  ),
  publishSeconds: histogram(
    'posthorn_publish_duration_seconds',
    [],
    shortBuckets,
    'From the call to publish until its events were committed.',
  ),
  pickupSeconds: histogram(
    'posthorn_pickup_latency_seconds',
    [],
    waitBuckets,
    'From when a delivery was due until it was first leased, by the clock of the database; once per run.',
  ),
  queueDepth: gauge('posthorn_queue_depth', ['subscription'], 'Deliveries that wait.'),
  queueDelayed: gauge(
    'posthorn_queue_delayed',
    ['subscription'],
    'Of those that wait, the ones that wait for their time: delays, retries, snoozes.',
  ),
  queueRetries: gauge(
    'posthorn_queue_retries',
    ['subscription'],
    'Of those that wait for their time, the ones that have failed before.',
  ),
  queueLeased: gauge('posthorn_queue_leased', ['subscription'], 'Deliveries that are leased.'),
  queueExpiring: gauge(
    'posthorn_queue_expiring',
    ['subscription'],
    'Of those that wait, how many must miss their expiry at the rate at which attempts ended lately.',
  ),
  queueOldest: gauge(
    'posthorn_queue_oldest_age_seconds',
    ['subscription'],
    'How long the oldest delivery has waited that does not wait for its time.',
  ),
  deadLetters: gauge('posthorn_dead_letters', [], 'Dead letters that nobody has redriven.'),
  memoryUnpersisted: gauge(
    'posthorn_memory_unpersisted',
    ['subscription'],
    'Events of a memory queue of this process that a crash would lose now.',
  ),
  memoryPersistSeconds: histogram(
    'posthorn_memory_persist_seconds',
    [],
    shortBuckets,
    'How long statements took that persist memory queues.',
  ),
  databaseUp: gauge('posthorn_database_up', [], 'Whether the database answered: 1 or 0.'),
  oldestTransaction: gauge(
    'posthorn_oldest_transaction_seconds',
    [],
    'Age of the oldest transaction open in the database, of those this role may see.',
  ),
  poolConnections: gauge(
    'posthorn_pool_connections',
    ['state'],
    'Connections of this process that are idle or used, and calls that are waiting for one.',
  ),
  poolWaitSeconds: histogram(
    'posthorn_pool_wait_seconds',
    [],
    shortBuckets,
    'How long calls waited for a connection.',
  ),
  longPolls: gauge('posthorn_long_polls_waiting', [], 'Long polls that wait in this process.'),
  requests: counter(
    'posthorn_http_requests_total',
    ['method', 'route', 'status'],
    'Requests answered by this process.',
  ),
  requestSeconds: histogram(
    'posthorn_http_request_duration_seconds',
    ['route'],
    requestBuckets,
    'How long requests took, the time that long polls waited included.',
  ),
  received: counter('eventhub_events_received_total', [], 'The same as posthorn_events_published_total.'),
  delivered: counter(
    'eventhub_messages_delivered_total',
    ['status'],
    'Attempts settled by this process: success (completed) or failure (retried or buried).',
  ),
  latency: histogram(
    'eventhub_delivery_latency_seconds',
    [],
    attemptBuckets,
    'The same as posthorn_attempt_duration_seconds, over all subscriptions.',
  ),
  pending: gauge(
    'eventhub_pending_messages',
    [],
    'The same as posthorn_queue_depth, over all subscriptions.',
  ),
  dlqSize: gauge('eventhub_dlq_size', [], 'The same as posthorn_dead_letters.'),
} as const

const makers = { counter: Counter, gauge: Gauge, histogram: Histogram } as const

type Metric<Kind> = Kind extends 'counter' ? Counter : Kind extends 'gauge' ? Gauge : Histogram
export type Metrics = {
  readonly [Key in keyof typeof metricTable]: Metric<(typeof metricTable)[Key]['kind']>
} & {
  readonly registry: Registry
  /** Attempts by subscription and settlement, and how long they took. */
  readonly attempted: AttemptTally
  /** What to call a subscription in a label: its name, unless there are too many. */
  readonly label: (subscription: string) => string
}

/** A registry of one hub's own; the caller may merge it into another. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const made: Record<string, unknown> = { registry, label: boundedLabel() }
  for (const [key, { kind, labels, ...rest }] of Object.entries(metricTable)) {
    const Maker = makers[kind]
    made[key] = new Maker({ ...rest, labelNames: [...labels], registers: [registry] })
  }
  const { attempts, executionSeconds } = made as Pick<Metrics, 'attempts' | 'executionSeconds'>
  made.attempted = new AttemptTally(attempts, executionSeconds, attemptBuckets)
  const metrics = made as unknown as Metrics
  nameTwice(metrics)
  return metrics
}

function boundedLabel(): (name: string) => string {
  const names = new Set<string>()
  return (name) => {
    if (names.size < toldApartMax) names.add(name)
    return names.has(name) ? name : allOthers
  }
}

/** The names of seed 004 have no figures of their own. */
function nameTwice(metrics: Metrics): void {
  sumUp(metrics.received, metrics.published, () => ({}))
  sumUp(metrics.delivered, metrics.attempts, ({ settlement }) => statuses[String(settlement)], [
    { status: 'success' },
    { status: 'failure' },
  ])
  sumUp(metrics.latency, metrics.executionSeconds, () => ({}))
  sumUp(metrics.pending, metrics.queueDepth, () => ({}))
  sumUp(metrics.dlqSize, metrics.deadLetters, () => ({}))
}

/** What was snoozed, released or cancelled is neither. */
const statuses: Readonly<Record<string, { readonly status: string }>> = {
  complete: { status: 'success' },
  retry: { status: 'failure' },
  bury: { status: 'failure' },
}

function counter(name: string, labels: readonly string[], help: string) {
  return { kind: 'counter', name, labels, help } as const
}

function gauge(name: string, labels: readonly string[], help: string) {
  return { kind: 'gauge', name, labels, help } as const
}

function histogram(name: string, labels: readonly string[], buckets: number[], help: string) {
  return { kind: 'histogram', name, labels, buckets, help } as const
}
