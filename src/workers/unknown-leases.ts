import { setTimeout as delay } from 'node:timers/promises'
import type { Core } from '../core/core.ts'
import type { KnowsLease, LeaseTokens } from '../engine/lease-tokens.ts'

export interface UnknownLeasesNeeds {
  readonly tokens: LeaseTokens
  readonly runner: {
    /** What this process knows of at the moment of the call. */
    knownLeases(): KnowsLease
  }
}

type Options = UnknownLeasesNeeds & Pick<Core, 'db' | 'identity' | 'log' | 'signals' | 'trouble'>

/** A statement whose connection is lost may still be at work for a moment. */
const againMs = 1_000

/**
 * Finds leases of this process that it does not know of, and hands them back: at once and a moment later when a connection was lost
 * or a settlement was refused, and every ten seconds.
 */
export class UnknownLeases {
  readonly #options: Options
  readonly #stopping = new AbortController()
  #looking: Promise<void> | undefined
  #looksLeft = 0

  constructor(options: Options) {
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
    const { db, tokens, identity, runner, log, signals } = this.#options
    const known = () => runner.knownLeases()
    const runs = await tokens.handBackUnknown(db, { worker: await identity.number(), known })
    if (runs === 0) return
    log.warn({ runs }, 'Leases whose answer was lost were handed back')
    signals.emit('wake')
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
        await this.#options.identity.register()
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
