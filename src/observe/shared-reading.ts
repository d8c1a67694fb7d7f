import { within } from '../domain/within.ts'

export interface SharedReadingOptions<T> {
  readonly read: () => Promise<T>
  /** How old a reading may be. */
  readonly freshMs: number
  /** How long a caller waits at most. Then it gets the previous reading, if there is one. */
  readonly waitMsMax: number
  readonly now: () => number
  readonly trouble: (error: unknown) => void
}

/** The largest share of time that may be spent on reading. */
const shareMax = 1 / 20
/** A reading that failed is repeated after this time. */
const retryMs = 1_000

/**
 * One reading for all callers that ask at about the same time. A reading that takes long is kept for longer, so that the
 * share of time spent on reading stays small, however much there is to read.
 */
export class SharedReading<T> {
  readonly #options: SharedReadingOptions<T>
  #latest: { readonly value: T } | undefined
  #nextAt = Number.NEGATIVE_INFINITY
  #reading: Promise<T | undefined> | undefined

  constructor(options: SharedReadingOptions<T>) {
    this.#options = options
  }

  /** Undefined: there is no reading now. */
  async get(): Promise<T | undefined> {
    const { now, waitMsMax } = this.#options
    if (this.#reading === undefined && now() < this.#nextAt) return this.#latest?.value
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const late = new Error('The reading takes too long')
    return within(this.#reading, waitMsMax, late).catch(() => this.#latest?.value)
  }

  async #read(): Promise<T | undefined> {
    const { read, freshMs, now, trouble } = this.#options
    const askedAt = now()
    try {
      const value = await read()
      this.#latest = { value }
      this.#nextAt = askedAt + Math.max(freshMs, (now() - askedAt) / shareMax)
      return value
    } catch (error) {
      this.#latest = undefined
      this.#nextAt = now() + retryMs
      trouble(error)
      return undefined
    }
  }
}
