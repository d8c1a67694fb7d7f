import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'

export interface NotifierOptions {
  readonly db: Database
  /** Names this process in notifications, so that it does not wake itself. */
  readonly processId: string
  readonly channel: string
  readonly trouble: (error: unknown, doing: string) => void
}

/** Other processes are told at most this often; in between they are told once, at the end. */
const notifyEveryMs = 5

/** Tells other processes that something was published. */
export class Notifier {
  readonly #options: NotifierOptions
  #notifiedAt = Number.NEGATIVE_INFINITY
  #notifying: Promise<void> | undefined

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /** Tells others within the commit when that is rare, else a moment later for all: NOTIFY serialises commits. */
  wake(): string | null {
    const now = performance.now()
    if (now - this.#notifiedAt >= notifyEveryMs) {
      this.#notifiedAt = now
      return this.#options.processId
    }
    return null
  }

  /** Only after the commit: whoever looks before it finds nothing. */
  tellSoon(): void {
    this.#notifying ??= this.#tellLater()
  }

  async settled(): Promise<void> {
    await this.#notifying
  }

  async #tellLater(): Promise<void> {
    const { db, channel, processId, trouble } = this.#options
    await delay(notifyEveryMs)
    this.#notifying = undefined
    this.#notifiedAt = performance.now()
    try {
      await db.query('select pg_notify($1, $2)', [channel, processId])
    } catch (error) {
      trouble(error, 'notifying other processes')
    }
  }
}
