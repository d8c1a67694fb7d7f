import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../db/database.ts'

export interface NotifierOptions {
  readonly db: Database
  /** Names this process in notifications, so that it does not wake itself. */
  readonly processId: string
  readonly channel: string
  readonly trouble: (error: unknown, doing: string) => void
}

/** At most one notification in this time; publishes in between share one at its end. */
const notifyEveryMs = 5

/** Notifies other processes that events were published. */
export class Notifier {
  readonly #options: NotifierOptions
  #notifiedAt = Number.NEGATIVE_INFINITY
  #notifying: Promise<void> | undefined

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /** What to notify with the commit; null: notify later, once for many commits, because NOTIFY makes commits wait for each other. */
  wake(): string | null {
    const now = performance.now()
    if (now - this.#notifiedAt >= notifyEveryMs) {
      this.#notifiedAt = now
      return this.#options.processId
    }
    return null
  }

  /** Call after the commit: a process that looks before it finds nothing. */
  notifySoon(): void {
    this.#notifying ??= this.#notifyLater()
  }

  async settled(): Promise<void> {
    await this.#notifying
  }

  async #notifyLater(): Promise<void> {
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
