export interface RefresherOptions {
  readonly read: () => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** Reads something again after it has changed. Changes that are announced during a read share the next one. */
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

  /** Resolves when no read is under way and none will follow. */
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
