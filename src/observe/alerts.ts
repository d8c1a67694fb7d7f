import type { EventInput } from '../domain/event.ts'
import { PosthornError } from '../errors.ts'
import type { Logger } from './log.ts'
import type { Metrics } from './metrics.ts'

/** Problems that somebody should know of. Each kind is the type of an operational event that can be subscribed to. */
export const alertKinds = [
  'posthorn.attempt.overdue',
  'posthorn.database.promoted',
  'posthorn.delivery.buried',
  'posthorn.delivery.expired',
  'posthorn.lane.blocked',
  'posthorn.queue.full',
  'posthorn.subscription.abandoned',
  'posthorn.subscription.paused',
  'posthorn.subscription.suspended',
] as const
export type AlertKind = (typeof alertKinds)[number]

export interface Alert {
  readonly kind: AlertKind
  readonly subscription: string
  /** The type of the event concerned, if there is one. */
  readonly type?: string | null
  readonly details: Readonly<Record<string, unknown>>
  /** Names a problem that several processes may notice, so that only the first publishes it. */
  readonly key?: string
}

export interface AlertsOptions {
  readonly log: Logger
  readonly metrics: Metrics
  /** Publishes the operational event if a subscription wants it. */
  readonly publish: (event: EventInput) => Promise<void>
  readonly now: () => number
}

const perMinuteMax = 10
const minuteMs = 60_000

/**
 * An alert is a warning in the log, a metric and an operational event. Each kind and subscription raises at most ten a
 * minute; the next alert says how many were held back. A problem with an operational event itself is only logged, so that
 * an alert never leads to another.
 */
export class Alerts {
  readonly #options: AlertsOptions
  readonly #windows = new Map<string, { since: number; raised: number; heldBack: number }>()
  readonly #publishing = new Set<Promise<void>>()

  constructor(options: AlertsOptions) {
    this.#options = options
    // Alert rules ask how much a series grew. One that begins with 1 would look as if nothing had happened.
    for (const alert of alertKinds) options.metrics.alerts.inc({ alert }, 0)
  }

  raise(alert: Alert): void {
    const { log, metrics } = this.#options
    metrics.alerts.inc({ alert: alert.kind })
    const heldBack = this.#admit(`${alert.kind} ${alert.subscription}`)
    if (heldBack === undefined) return
    const payload = { subscription: alert.subscription, ...alert.details, heldBack }
    log.warn({ alert: alert.kind, ...payload }, alert.kind)
    if (alert.type?.startsWith('posthorn.')) return
    const { key } = alert
    const idempotencyKey = key === undefined ? {} : { idempotencyKey: `${alert.kind} ${key}` }
    const publishing = this.#publish({ type: alert.kind, payload, ...idempotencyKey })
    this.#publishing.add(publishing)
    void publishing.finally(() => this.#publishing.delete(publishing))
  }

  /** Resolves when every operational event raised so far is stored. */
  async settled(): Promise<void> {
    await Promise.all(this.#publishing)
  }

  async #publish(event: EventInput): Promise<void> {
    try {
      await this.#options.publish(event)
    } catch (error) {
      // Another process has published it, with another number of alerts that were held back.
      if (error instanceof PosthornError && error.code === 'IDEMPOTENCY_MISMATCH') return
      this.#options.log.error({ err: error, type: event.type }, 'An operational event could not be published')
    }
  }

  /** How many alerts were held back since the last one; undefined: hold this one back too. */
  #admit(key: string): number | undefined {
    const now = this.#options.now()
    let window = this.#windows.get(key)
    if (window === undefined || now - window.since >= minuteMs) {
      window = { since: now, raised: 0, heldBack: window?.heldBack ?? 0 }
      this.#windows.set(key, window)
    }
    if (window.raised >= perMinuteMax) {
      window.heldBack++
      return undefined
    }
    window.raised++
    const { heldBack } = window
    window.heldBack = 0
    return heldBack
  }
}
