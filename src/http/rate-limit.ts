export interface Allowance {
  readonly allowed: boolean
  /** How many more requests are allowed now. */
  readonly remaining: number
  /** Whole seconds until the next request is allowed; if it is allowed now, until the allowance is full. */
  readonly resetSeconds: number
}

const holdersMax = 10_000

interface Bucket {
  tokens: number
  filledAt: number
}

/** Limits the requests per second of each API key, on this node. The requests of a second may come at once. */
export class RateLimit {
  readonly #buckets = new Map<string, Bucket>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  take(holder: string, perSecond: number): Allowance {
    const size = Math.max(1, perSecond)
    const now = this.#now()
    const bucket = this.#bucketOf(holder, size, now)
    bucket.tokens = Math.min(size, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond)
    bucket.filledAt = now
    const allowed = bucket.tokens >= 1
    if (allowed) bucket.tokens--
    const missing = allowed ? size - bucket.tokens : 1 - bucket.tokens
    return { allowed, remaining: Math.floor(bucket.tokens), resetSeconds: Math.ceil(missing / perSecond) }
  }

  #bucketOf(holder: string, size: number, now: number): Bucket {
    const known = this.#buckets.get(holder)
    if (known !== undefined) return known
    const [oldest] = this.#buckets.size >= holdersMax ? this.#buckets.keys() : []
    if (oldest !== undefined) this.#buckets.delete(oldest)
    const bucket = { tokens: size, filledAt: now }
    this.#buckets.set(holder, bucket)
    return bucket
  }
}
