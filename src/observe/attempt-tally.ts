import type { Counter, Histogram } from 'prom-client'

/** One subscription's attempts that came to one kind of settlement. */
export interface AttemptCount {
  /** Null: nobody knows how long it took. */
  count(executionMs: number | null): void
}

interface Durations {
  readonly labels: Readonly<Record<string, string>>
  /** By bucket, and one more for what took longer. */
  readonly counts: number[]
  sum: number
}

/**
 * Counts attempts in plain numbers, which the metrics are given when somebody reads them: finding a labelled metric and
 * its bucket each time costs more than all the rest that is done for an attempt in memory.
 */
export class AttemptTally {
  readonly #attempts: Counter
  readonly #buckets: readonly number[]
  readonly #counts = new Map<string, AttemptCount>()
  readonly #durations = new Map<string, Durations>()
  readonly #pending: (() => void)[] = []

  constructor(attempts: Counter, durations: Histogram, buckets: readonly number[]) {
    this.#attempts = attempts
    this.#buckets = buckets
    Object.assign(attempts, { collect: () => this.#flush() })
    const { name, help, type, aggregator } = durations as Histogram & Described
    const read = async () => ({ name, help, type, aggregator, values: this.#values(name) })
    // The registry asks histograms the second way.
    Object.assign(durations, { get: read, getForPromString: read })
  }

  /** To be kept by whoever counts many. */
  of(subscription: string, settlement: string): AttemptCount {
    const key = `${subscription} ${settlement}`
    let count = this.#counts.get(key)
    if (count === undefined) {
      count = this.#make(subscription, settlement)
      this.#counts.set(key, count)
    }
    return count
  }

  #make(subscription: string, settlement: string): AttemptCount {
    const durations = this.#durationsOf(subscription)
    const buckets = this.#buckets
    let pending = 0
    this.#pending.push(() => {
      this.#attempts.inc({ subscription, settlement }, pending)
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
      durations = { labels: { subscription }, counts: Array(this.#buckets.length + 1).fill(0), sum: 0 }
      this.#durations.set(subscription, durations)
    }
    return durations
  }

  #flush(): void {
    for (const flush of this.#pending) flush()
  }

  #values(name: string) {
    return [...this.#durations.values()].flatMap(({ labels, counts, sum }) => {
      const limits = [...this.#buckets, '+Inf']
      let count = 0
      const bucketValues = limits.map((le, bucket) => {
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

interface Described {
  readonly name: string
  readonly help: string
  readonly type: string
  readonly aggregator: string
}
