import { setTimeout as delay } from 'node:timers/promises'
import type { Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import type { KnowsLease, LeaseTokens } from '../engine/lease-tokens.ts'
import type { RememberedWorker } from './workers.ts'

export interface UnknownLeasesOptions {
  readonly db: Database
  readonly tokens: LeaseTokens
  readonly worker: RememberedWorker
  readonly signals: Signals
  /** The leases that this process knows of at the moment of the call. */
  readonly known: () => KnowsLease
  readonly handedBack: (runs: number) => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** A statement whose connection is lost may still run for a moment. */
const againMs = 1_000

/**
 * Finds leases of this process that it does not know of, and hands them back: at once and a moment later when a connection was lost
 * or a settlement was refused, and every ten seconds.
 */
export class UnknownLeases {
  readonly #options: UnknownLeasesOptions
  readonly #stopping = new AbortController()
  #looking: Promise<void> | undefined
  #looksLeft = 0

  constructor(options: UnknownLeasesOptions) {
    this.#options = options
    options.signals.on('leaseDoubted', () => this.soon())
    options.signals.on('reconnected', () => this.soon())
  }

  /** Call this when the database answers again after a connection was lost, or when it has refused a settlement. */
  soon(): void {
    if (this.#stopping.signal.aborted) return
    this.#looksLeft = 2
    this.#looking ??= this.#lookAgain().finally(() => {
      this.#looking = undefined
    })
  }

  async look(): Promise<void> {
    const { db, tokens, worker, known, handedBack } = this.#options
    const runs = await tokens.handBackUnknown(db, { worker: await worker.number(), known })
    if (runs > 0) handedBack(runs)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#looking
  }

  /** A look that fails is repeated until the database answers. */
  async #lookAgain(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      // Counted before the look: a call of soon() during it asks for two more.
      this.#looksLeft--
      try {
        await this.#options.worker.register()
        await this.look()
      } catch (error) {
        this.#looksLeft++
        if (!signal.aborted) this.#options.trouble(error, 'handing back unknown leases')
      }
      if (this.#looksLeft <= 0) return
      await delay(againMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
