import type { Counter, Gauge, Histogram } from 'prom-client'

type Metric = Counter | Gauge | Histogram
type Labels = Readonly<Partial<Record<string, string | number>>>

interface Value {
  readonly value: number
  readonly labels: Labels
  readonly metricName?: string
}

/**
 * Makes a metric the sum of another, asked for when it is read: what has two names is counted once. `labelsOf`
 * says which of its own labels a value of the other counts for; undefined: none.
 */
export function sumUp(
  metric: Metric,
  source: Metric,
  labelsOf: (labels: Labels) => Labels | undefined,
  always: readonly Labels[] = [],
): void {
  const { name, help, type, aggregator } = metric as Metric & Described
  const read = async () => {
    const { name: sourceName, values } = (await source.get()) as { name: string; values: readonly Value[] }
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
    return { name, help, type, aggregator, values: [...sums.values()] }
  }
  // The registry asks histograms the second way.
  Object.assign(metric, { get: read, getForPromString: read })
}

interface Described {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly aggregator: string
}
