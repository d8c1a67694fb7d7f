import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import type { Source } from './source.ts'

export interface HandBackOptions {
  readonly source: Pick<Source, 'release' | 'releaseSome'>
  readonly trouble: (error: unknown, doing: string) => void
}

/** Gives leases up. Without the database this fails, and they run out by themselves. */
export class HandBack {
  readonly #options: HandBackOptions

  constructor(options: HandBackOptions) {
    this.#options = options
  }

  /** Nothing left in them has begun. */
  async runs(runs: readonly LeasedRun[]): Promise<void> {
    if (runs.length > 0) await this.#try((source) => source.release(runs))
  }

  /** These have not begun, while others of their runs go on. */
  async some(deliveries: readonly LeasedDelivery[]): Promise<void> {
    if (deliveries.length > 0) await this.#try((source) => source.releaseSome?.(deliveries))
  }

  async #try(release: (source: HandBackOptions['source']) => Promise<void> | undefined): Promise<void> {
    try {
      await release(this.#options.source)
    } catch (error) {
      this.#options.trouble(error, 'handing leases back')
    }
  }
}
