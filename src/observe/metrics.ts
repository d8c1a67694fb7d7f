import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { allOthers, toldApartMax } from '../domain/hub-stats.ts'
import { AttemptTally } from './attempt-tally.ts'
import { sumUp } from './derived-values.ts'

const shortBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const requestBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const waitBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120, 600, 3600]
const attemptBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 900]

/** All metrics: name, labels and meaning. docs/reference/metrics.md lists the same. */
export const metricTable = {
  published: counter('posthorn_events_published_total', 'Events stored by this process.'),
  unrouted: counter(
    'posthorn_events_unrouted_total',
    'Events stored by this process that no subscription wanted.',
  ),
  refused: counter(
    'posthorn_publishes_refused_total',
    'Publishes that were refused: a queue was full, draining, or in the memory of another process.',
    ['reason'],
  ),
  attempts: counter(
    'posthorn_attempts_total',
    'Attempts settled by this process, by settlement: complete, retry, bury, snooze, release or cancel.',
    ['subscription', 'settlement'],
  ),
  leasesLost: counter(
    'posthorn_leases_lost_total',
    'Deliveries whose lease this process lost before it could settle them.',
    ['subscription'],
  ),
  leasesExpired: counter(
    'posthorn_leases_expired_total',
    'Runs that upkeep in this process took back from workers that vanished.',
  ),
  expired: counter(
    'posthorn_deliveries_expired_total',
    'Deliveries that upkeep in this process ended because they expired.',
  ),
  wakeUpsLost: counter(
    'posthorn_wakeups_lost_total',
    'Lanes, gates and resumed queues that waited and that nothing would have woken; upkeep woke them. More than 0 is a defect.',
    ['kind'],
  ),
  alerts: counter('posthorn_alerts_total', 'Alerts raised, including those that the rate limit held back.', [
    'alert',
  ]),
  pruned: counter(
    'posthorn_pruned_total',
    'Rows that this process removed because they need not be kept any longer, by table.',
    ['table'],
  ),
  pruneFailures: counter(
    'posthorn_prune_failures_total',
    'Steps of pruning that failed in this process. What cannot be archived is not removed.',
  ),
  storageBytes: gauge('posthorn_storage_bytes', 'Bytes of each table and its indexes in the database.', [
    'table',
  ]),
  webhooks: counter(
    'posthorn_webhooks_total',
    'Webhook requests sent by this process, by class of the status (2xx) or of the failure (refused).',
    ['result'],
  ),
  underWay: gauge(
    'posthorn_attempts_under_way',
    'Attempts under way in this process: handlers and webhook requests.',
  ),
  attemptsOverdue: gauge(
    'posthorn_attempts_overdue',
    'Attempts that began more than overdueAfterMs ago and have not ended.',
  ),
  workers: gauge(
    'posthorn_workers',
    'Workers that are alive, and stale ones: silent, or with a lease that lapsed.',
    ['state'],
  ),
  executionSeconds: histogram(
    'posthorn_attempt_duration_seconds',
    attemptBuckets,
    'How long attempts took.',
    ['subscription'],
  ),
  publishSeconds: histogram(
    'posthorn_publish_duration_seconds',
    shortBuckets,
    'Time from the call to publish until its events were committed.',
  ),
  pickupSeconds: histogram(
    'posthorn_pickup_latency_seconds',
    waitBuckets,
    'Time from when a delivery was due until its first lease, by the clock of the database; once per run.',
  ),
  queueDepth: gauge('posthorn_queue_depth', 'Deliveries that wait, for any reason.', ['subscription']),
  queueDelayed: gauge(
    'posthorn_queue_delayed',
    'Deliveries that wait for a time: delays, retries and snoozes.',
    ['subscription'],
  ),
  queueRetries: gauge('posthorn_queue_retries', 'Deliveries that wait for a time after a failure.', [
    'subscription',
  ]),
  queueLeased: gauge('posthorn_queue_leased', 'Deliveries that are leased.', ['subscription']),
  queueExpiring: gauge(
    'posthorn_queue_expiring',
    'Waiting deliveries that must miss their expiry at the recent rate of attempts.',
    ['subscription'],
  ),
  queueOldest: gauge(
    'posthorn_queue_oldest_age_seconds',
    'How long the oldest delivery has waited, of those that do not wait for a time.',
    ['subscription'],
  ),
  deadLetters: gauge('posthorn_dead_letters', 'Dead letters that nobody has redriven.'),
  memoryUnpersisted: gauge(
    'posthorn_memory_unpersisted',
    'Events of a memory queue of this process that a crash would lose now.',
    ['subscription'],
  ),
  memoryPersistSeconds: histogram(
    'posthorn_memory_persist_seconds',
    shortBuckets,
    'How long the statements took that persist memory queues.',
  ),
  databaseUp: gauge('posthorn_database_up', 'Whether the database answered: 1 or 0.'),
  oldestTransaction: gauge(
    'posthorn_oldest_transaction_seconds',
    'Age of the oldest open transaction in the database, of those that this role may see.',
  ),
  poolConnections: gauge(
    'posthorn_pool_connections',
    'Connections of this process that are idle or used, and calls that wait for a connection.',
    ['state'],
  ),
  poolWaitSeconds: histogram(
    'posthorn_pool_wait_seconds',
    shortBuckets,
    'How long calls waited for a connection.',
  ),
  longPolls: gauge('posthorn_long_polls_waiting', 'Long polls that wait in this process.'),
  requests: counter('posthorn_http_requests_total', 'Requests answered by this process.', [
    'method',
    'route',
    'status',
  ]),
  requestSeconds: histogram(
    'posthorn_http_request_duration_seconds',
    requestBuckets,
    'How long requests took, including the time that long polls waited.',
    ['route'],
  ),
  received: counter('eventhub_events_received_total', 'The same as posthorn_events_published_total.'),
  delivered: counter(
    'eventhub_messages_delivered_total',
    'Attempts settled by this process: success (completed) or failure (retried or buried).',
    ['status'],
  ),
  latency: histogram(
    'eventhub_delivery_latency_seconds',
    attemptBuckets,
    'The same as posthorn_attempt_duration_seconds, over all subscriptions.',
  ),
  pending: gauge('eventhub_pending_messages', 'The same as posthorn_queue_depth, over all subscriptions.'),
  dlqSize: gauge('eventhub_dlq_size', 'The same as posthorn_dead_letters.'),
} as const

const makers = { counter: Counter, gauge: Gauge, histogram: Histogram } as const

type Metric<Kind> = Kind extends 'counter' ? Counter : Kind extends 'gauge' ? Gauge : Histogram
export type Metrics = {
  readonly [Key in keyof typeof metricTable]: Metric<(typeof metricTable)[Key]['kind']>
} & {
  readonly registry: Registry
  /** Counts attempts by subscription and settlement, and how long they took. */
  readonly attempted: AttemptTally
  /** The label of a subscription: its name, or `(other)` if there are too many. */
  readonly label: (subscription: string) => string
}

/** The metrics of one hub in a registry of their own, which the caller may merge into another. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const label = boundedLabel()
  const made: Record<string, unknown> = { registry, label }
  for (const [key, { kind, labels, ...rest }] of Object.entries(metricTable)) {
    const Maker = makers[kind]
    made[key] = new Maker({ ...rest, labelNames: [...labels], registers: [registry] })
  }
  const { attempts, executionSeconds: durations } = made as Pick<Metrics, 'attempts' | 'executionSeconds'>
  made.attempted = new AttemptTally({ attempts, durations, buckets: attemptBuckets, label })
  const metrics = made as unknown as Metrics
  deriveOthers(metrics)
  return metrics
}

function boundedLabel(): (name: string) => string {
  const names = new Set<string>()
  return (name) => {
    if (names.size < toldApartMax) names.add(name)
    return names.has(name) ? name : allOthers
  }
}

/** The `eventhub_` metrics are sums of others: each figure is counted once. */
function deriveOthers(metrics: Metrics): void {
  sumUp(metrics.received, metrics.published)
  sumUp(metrics.delivered, metrics.attempts, ({ settlement }) => statuses[String(settlement)], [
    { status: 'success' },
    { status: 'failure' },
  ])
  sumUp(metrics.latency, metrics.executionSeconds)
  sumUp(metrics.pending, metrics.queueDepth)
  sumUp(metrics.dlqSize, metrics.deadLetters)
}

/** Snoozed, released and cancelled attempts count as neither. */
const statuses: Readonly<Record<string, { readonly status: string }>> = {
  complete: { status: 'success' },
  retry: { status: 'failure' },
  bury: { status: 'failure' },
}

function counter(name: string, help: string, labels: readonly string[] = []) {
  return { kind: 'counter', name, labels, help } as const
}

function gauge(name: string, help: string, labels: readonly string[] = []) {
  return { kind: 'gauge', name, labels, help } as const
}

function histogram(name: string, buckets: number[], help: string, labels: readonly string[] = []) {
  return { kind: 'histogram', name, labels, buckets, help } as const
}
