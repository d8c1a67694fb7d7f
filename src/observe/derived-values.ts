import type { Counter, Gauge, Histogram } from 'prom-client'

type Metric = Counter | Gauge | Histogram
type Labels = Readonly<Partial<Record<string, string | number>>>

export interface MetricValue {
  readonly value: number
  readonly labels: Labels
  readonly metricName?: string
}

/** Makes a metric's values be computed when somebody reads the metric. */
export function deriveValues(
  metric: Metric,
  valuesOf: (name: string) => readonly MetricValue[] | Promise<readonly MetricValue[]>,
): void {
  const { name, help, type, aggregator } = metric as Metric & Described
  const read = async () => ({ name, help, type, aggregator, values: await valuesOf(name) })
  // The registry reads histograms by the second method.
  Object.assign(metric, { get: read, getForPromString: read })
}

interface Described {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly aggregator: string
}

/**
 * Makes a metric the sum of another, so that a figure with two names is counted once. `labelsOf` translates labels of the
 * source into labels of the metric; undefined leaves the value out. Values for `always` exist from the start, as 0.
 */
export function sumUp(
  metric: Metric,
  source: Metric,
  labelsOf: (labels: Labels) => Labels | undefined = () => ({}),
  always: readonly Labels[] = [],
): void {
  deriveValues(metric, async (name) => {
    const { name: sourceName, values } = (await source.get()) as {
      name: string
      values: readonly MetricValue[]
    }
    const sums = new Map<string, { value: number; labels: Labels; metricName: string }>()
    const add = (labels: Labels, value: number, metricName: string) => {
      const key = `${metricName} ${JSON.stringify(labels)}`
      const sum = sums.get(key)
      if (sum === undefined) sums.set(key, { value, labels, metricName })
      else sum.value += value
    }
    for (const labels of always) add(labels, 0, name)
    for (const { value, labels, metricName } of values) {
      const { le, ...rest } = labels
      const own = labelsOf(rest)
      if (own === undefined) continue
      // A histogram's values are named after it: `_bucket`, `_sum`, `_count`.
      const suffix = metricName?.slice(sourceName.length) ?? ''
      add(le === undefined ? own : { le, ...own }, value, name + suffix)
    }
    return [...sums.values()]
  })
}
