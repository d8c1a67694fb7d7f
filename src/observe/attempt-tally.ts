import type { Counter, Histogram } from 'prom-client'
import { deriveValues, type MetricValue } from './derived-values.ts'

/** Counts the attempts of one subscription that ended in one kind of settlement. */
export interface AttemptCount {
  /** Null: the duration is unknown. */
  count(executionMs: number | null): void
}

interface Durations {
  readonly labels: Readonly<Record<string, string>>
  /** One count per bucket, and a last one for longer attempts. */
  readonly counts: number[]
  sum: number
}

export interface AttemptTallyParts {
  readonly attempts: Counter
  readonly durations: Histogram
  readonly buckets: readonly number[]
  /** The label of a subscription: its name, unless there are too many. */
  readonly label: (subscription: string) => string
}

/**
 * Counts attempts in plain numbers and hands them to the metrics when somebody reads these: to find a labelled metric and
 * its bucket for each attempt costs more than everything else that is done for an attempt in memory.
 */
export class AttemptTally {
  readonly #parts: AttemptTallyParts
  /** By subscription and settlement: two maps, so that no key text is made for each attempt. */
  readonly #counts = new Map<string, Map<string, AttemptCount>>()
  readonly #durations = new Map<string, Durations>()
  readonly #flushes: (() => void)[] = []

  constructor(parts: AttemptTallyParts) {
    this.#parts = parts
    Object.assign(parts.attempts, { collect: () => this.#flush() })
    deriveValues(parts.durations, (name) => this.#values(name))
  }

  of(subscription: string, settlement: string): AttemptCount {
    let counts = this.#counts.get(subscription)
    if (counts === undefined) {
      counts = new Map()
      this.#counts.set(subscription, counts)
    }
    let count = counts.get(settlement)
    if (count === undefined) {
      count = this.#make(this.#parts.label(subscription), settlement)
      counts.set(settlement, count)
    }
    return count
  }

  #make(subscription: string, settlement: string): AttemptCount {
    const { attempts, buckets } = this.#parts
    const durations = this.#durationsOf(subscription)
    let pending = 0
    this.#flushes.push(() => {
      attempts.inc({ subscription, settlement }, pending)
      pending = 0
    })
    return {
      count: (executionMs) => {
        pending++
        if (executionMs === null) return
        const seconds = executionMs / 1000
        let bucket = 0
        while (bucket < buckets.length && seconds > (buckets[bucket] as number)) bucket++
        ;(durations.counts[bucket] as number)++
        durations.sum += seconds
      },
    }
  }

  #durationsOf(subscription: string): Durations {
    let durations = this.#durations.get(subscription)
    if (durations === undefined) {
      const counts = Array(this.#parts.buckets.length + 1).fill(0)
      durations = { labels: { subscription }, counts, sum: 0 }
      this.#durations.set(subscription, durations)
    }
    return durations
  }

  #flush(): void {
    for (const flush of this.#flushes) flush()
  }

  #values(name: string): MetricValue[] {
    return [...this.#durations.values()].flatMap(({ labels, counts, sum }) => {
      let count = 0
      const bucketValues = [...this.#parts.buckets, '+Inf'].map((le, bucket) => {
        count += counts[bucket] as number
        return { labels: { le, ...labels }, value: count, metricName: `${name}_bucket` }
      })
      const ends = [
        { labels, value: sum, metricName: `${name}_sum` },
        { labels, value: count, metricName: `${name}_count` },
      ]
      return count === 0 ? [] : [...bucketValues, ...ends]
    })
  }
}
