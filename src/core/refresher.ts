export interface RefresherOptions {
  readonly read: () => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** Reads something again whenever it has changed: once for all changes that were told meanwhile. */
export class Refresher {
  readonly #options: RefresherOptions
  #isOutdated = false
  #isStopped = false
  #reading: Promise<void> | undefined

  constructor(options: RefresherOptions) {
    this.#options = options
  }

  soon(): void {
    if (this.#isStopped) return
    this.#isOutdated = true
    this.#reading ??= this.#readUntilCurrent().finally(() => {
      this.#reading = undefined
    })
  }

  /** Resolves when nothing is being read any more, and nothing will be. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#isOutdated = false
    await this.#reading
  }

  async #readUntilCurrent(): Promise<void> {
    const { read, trouble } = this.#options
    while (this.#isOutdated) {
      this.#isOutdated = false
      await read().catch((error: unknown) => trouble(error, 'reading what has changed'))
    }
  }
}
