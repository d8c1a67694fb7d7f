import { Counter, Gauge, Histogram, Registry } from 'prom-client'

/** Every metric in one table: name, kind, labels, what it counts. docs/reference/metrics.md lists the same. */
export const metricTable = {
  published: {
    name: 'posthorn_events_published_total',
    kind: 'counter',
    labels: [],
    help: 'Events stored by this process.',
  },
  unrouted: {
    name: 'posthorn_events_unrouted_total',
    kind: 'counter',
    labels: [],
    help: 'Events stored by this process that no subscription wanted.',
  },
  attempts: {
    name: 'posthorn_attempts_total',
    kind: 'counter',
    labels: ['subscription', 'settlement'],
    help: 'Attempts settled by this process, by what became of the delivery.',
  },
  leasesLost: {
    name: 'posthorn_leases_lost_total',
    kind: 'counter',
    labels: ['subscription'],
    help: 'Deliveries whose lease this process lost before it could settle them.',
  },
  leasesExpired: {
    name: 'posthorn_leases_expired_total',
    kind: 'counter',
    labels: [],
    help: 'Runs that upkeep in this process took back from workers that had vanished.',
  },
  expired: {
    name: 'posthorn_deliveries_expired_total',
    kind: 'counter',
    labels: [],
    help: 'Deliveries that upkeep in this process ended because their time was over.',
  },
  alerts: {
    name: 'posthorn_alerts_total',
    kind: 'counter',
    labels: ['alert'],
    help: 'Alerts raised, those held back by the rate limit included.',
  },
  underWay: {
    name: 'posthorn_attempts_under_way',
    kind: 'gauge',
    labels: [],
    help: 'Attempts whose handler is running in this process.',
  },
  executionSeconds: {
    name: 'posthorn_attempt_duration_seconds',
    kind: 'histogram',
    labels: ['subscription'],
    help: 'How long handlers took.',
  },
} as const satisfies Record<string, MetricEntry>

interface MetricEntry {
  readonly name: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
}

const makers = { counter: Counter, gauge: Gauge, histogram: Histogram } as const
const durationBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 900]

type Metric<Kind> = Kind extends 'counter' ? Counter : Kind extends 'gauge' ? Gauge : Histogram
export type Metrics = {
  readonly [Key in keyof typeof metricTable]: Metric<(typeof metricTable)[Key]['kind']>
} & { readonly registry: Registry }

/** Reads a gauge's value when somebody asks for it, instead of keeping it up to date. */
export function observeGauge(gauge: Gauge, value: () => number): void {
  ;(gauge as Gauge & { collect: () => void }).collect = () => gauge.set(value())
}

/** A registry of one hub's own; the caller may merge it into another. */
export function createMetrics(): Metrics {
  const registry = new Registry()
  const metrics: Record<string, unknown> = { registry }
  for (const [key, { name, kind, labels, help }] of Object.entries(metricTable)) {
    const Maker = makers[kind as keyof typeof makers]
    const buckets = kind === 'histogram' ? { buckets: durationBuckets } : {}
    metrics[key] = new Maker({ name, help, labelNames: [...labels], registers: [registry], ...buckets })
  }
  return metrics as unknown as Metrics
}
