import { within } from '../domain/within.ts'

export interface SharedReadingOptions<T> {
  readonly read: () => Promise<T>
  /** How old a reading may be. */
  readonly freshMs: number
  /** How long a caller waits at most: then it is given the reading before, if there was one. */
  readonly waitMsMax: number
  readonly now: () => number
  readonly trouble: (error: unknown) => void
}

/** How much of the time may be spent on reading. */
const shareMax = 1 / 20
/** A reading that failed is tried again after this. */
const retryMs = 1_000

/**
 * One reading for all who ask at about the same time. One that takes long is kept for longer, so that however much
 * there is to read, most of the time nobody reads.
 */
export class SharedReading<T> {
  readonly #options: SharedReadingOptions<T>
  #latest: { readonly value: T } | undefined
  #nextAt = Number.NEGATIVE_INFINITY
  #reading: Promise<T | undefined> | undefined

  constructor(options: SharedReadingOptions<T>) {
    this.#options = options
  }

  /** Undefined: there is none to be had now. */
  async get(): Promise<T | undefined> {
    const { now, waitMsMax } = this.#options
    if (this.#reading === undefined && now() < this.#nextAt) return this.#latest?.value
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const late = new Error('The reading takes its time')
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
