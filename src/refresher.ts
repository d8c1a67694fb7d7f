export interface RefresherOptions {
  readonly read: () => Promise<void>
  readonly trouble: (error: unknown, doing: string) => void
}

/** Reads something again whenever somebody says that it has changed: once for all who have said so meanwhile. */
export class Refresher {
  readonly #options: RefresherOptions
  #isOutdated = false
  #reading: Promise<void> | undefined

  constructor(options: RefresherOptions) {
    this.#options = options
  }

  soon(): void {
    this.#isOutdated = true
    this.#reading ??= this.#readUntilCurrent().finally(() => {
      this.#reading = undefined
    })
  }

  /** Resolves when nothing is being read any more. */
  async settled(): Promise<void> {
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
