import type { Database } from '../db/database.ts'
import type { Directory } from '../directory.ts'
import { type PolledLease, PolledLeases } from '../domain/polled-leases.ts'
import { describeError } from '../domain/settlement.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { integer } from '../domain/subscription.ts'
import { toReason } from '../domain/text.ts'
import { PosthornError } from '../errors.ts'
import { newToken } from '../lease-source.ts'
import type { Burial } from '../observe/hub-events.ts'
import type { Metrics } from '../observe/metrics.ts'
import { observePickup } from '../observe/pickup.ts'
import type { Admitter } from '../operations/admit.ts'
import { completionOf, poll } from '../operations/poll.ts'
import { type SettleRequest, settle } from '../operations/settle.ts'
import { type LateAnswer, settleLate } from '../operations/settle-late.ts'

export interface PollingParts {
  readonly db: Database
  readonly admitter: Admitter
  readonly directory: Directory
  readonly worker: () => Promise<number>
  readonly buried: (burial: Burial) => void
  readonly metrics: Metrics
}

export interface PollOptions {
  /** Which pull subscription. Default: the work queue, where every event with tags goes. */
  readonly subscription?: string
  /** Only events with any of these tags. */
  readonly tags?: readonly string[]
  /** 1,000 to 43,200,000. Default: the subscription's. */
  readonly leaseMs?: number
}

export interface FinalizeOptions {
  /** Through which subscription it was polled; needed only where it is held through several. */
  readonly subscription?: string
}

interface Polled extends PolledLease {
  readonly subscriptionNo: number
  readonly request: SettleRequest
  readonly type: string | null
  readonly stopsLane: string | null
}

interface Ending {
  readonly settlement: 'completed' | 'buried'
  readonly reason: string | null
}

/** Seed 001's way to consume: poll one event, and end it by its id. */
export class Polling {
  readonly #parts: PollingParts
  /** What `poll` has leased in this hub and `finalize` will settle. */
  readonly #polled = new PolledLeases<Polled>()

  constructor(parts: PollingParts) {
    this.#parts = parts
  }

  /** Leases the oldest event that waits, or undefined. This hub remembers the lease for `finalize`. */
  async poll(options: PollOptions = {}): Promise<StoredEvent | undefined> {
    const asked =
      options.leaseMs === undefined ? undefined : integer('leaseMs', options.leaseMs, 1_000, 43_200_000)
    const subscription = await this.#parts.directory.current(options.subscription ?? 'work')
    const request = {
      subscription,
      leaseMs: asked ?? subscription.leaseMs,
      tags: options.tags ?? null,
      token: newToken(),
      worker: await this.#parts.worker(),
      ...({ eventsMax: 1, runsMax: 1, begins: 'granted', suspects: true } as const),
    }
    const [run] = await poll(this.#parts.db, this.#parts.admitter, request)
    const delivery = run?.deliveries[0]
    if (run === undefined || delivery === undefined) return undefined
    observePickup(this.#parts.metrics, run, request.leaseMs)
    const { event } = delivery
    this.#polled.remember({
      eventId: event.id,
      subscription: subscription.name,
      subscriptionNo: subscription.no,
      type: event.type,
      stopsLane: subscription.onExhausted === 'block' ? event.orderingKey : null,
      request: completionOf(delivery),
    })
    return event
  }

  /**
   * Ends what `poll` leased: completed, or with errors for good, as a dead letter. Doing it twice is doing it
   * once. Throws LEASE_LOST when the lease went to another, was buried, or ended otherwise; AMBIGUOUS_LEASE when
   * the event is held through several subscriptions and none is named.
   */
  async finalize(
    eventId: number,
    errors: readonly unknown[] = [],
    { subscription }: FinalizeOptions = {},
  ): Promise<void> {
    const polled = this.#polled.find(eventId, subscription)
    const ending = endingOf(errors)
    if (polled.ended === ending.settlement) return
    const answer = polled.ended ?? (await this.#settlePolled(polled, ending))
    if (answer === 'settled') return
    const state = answer === 'lost' ? 'leased to another worker, waiting or buried' : 'settled otherwise'
    throw new PosthornError('LEASE_LOST', { eventId, state })
  }

  async #settlePolled(polled: Polled, ending: Ending): Promise<LateAnswer> {
    const { db, buried } = this.#parts
    const { subscriptionNo, ...burial } = polled
    const request = { ...polled.request, ...ending }
    const [rejected] = await settle(db, [request])
    const answer =
      rejected === undefined ? 'settled' : await settleLate(db, { subscription: subscriptionNo, request })
    // A call beside this one may have been told first.
    if (polled.ended !== undefined || answer === 'settled otherwise') return answer
    this.#polled.end(polled, answer === 'lost' ? 'lost' : ending.settlement)
    if (polled.ended !== 'lost') this.#count(polled)
    if (polled.ended === 'buried') buried({ ...burial, reason: ending.reason ?? '' })
    return answer
  }

  #count({ subscription: name, ended }: Polled): void {
    const { attempts, label } = this.#parts.metrics
    attempts.inc({ subscription: label(name), settlement: ended === 'buried' ? 'bury' : 'complete' })
  }
}

function endingOf(errors: readonly unknown[]): Ending {
  if (errors.length === 0) return { settlement: 'completed', reason: null }
  const reason = toReason(`finalized with errors: ${errors.map(describeError).join('; ')}`)
  return { settlement: 'buried', reason }
}
