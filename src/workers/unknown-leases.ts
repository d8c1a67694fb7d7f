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
 * Looks for leases that nobody knows of: at once and a moment later when a connection was lost or a settlement was refused, and
 * now and then.
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

  /** The database answers again after a connection was lost, or has refused a settlement. */
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

  /** A look that fails does not count: it is repeated until the database answers. */
  async #lookAgain(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      // Before the look: whoever asks during it asks for two more.
      this.#looksLeft--
      try {
        await this.#options.identity.register()
        await this.look()
      } catch (error) {
        this.#looksLeft++
        if (!signal.aborted) this.#options.trouble(error, 'handing back leases that nobody knows of')
      }
      if (this.#looksLeft <= 0) return
      await delay(againMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
