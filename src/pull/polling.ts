import { portionsOf } from '../core/portions.ts'
import type { Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
import { describeError } from '../domain/describe-error.ts'
import { checkEventId } from '../domain/id.ts'
import { checkOptions, type NamesOf } from '../domain/known-names.ts'
import { type PolledLease, PolledLeases } from '../domain/polled-leases.ts'
import type { StoredEvent } from '../domain/stored-event.ts'
import { integer } from '../domain/subscription.ts'
import { checkTagFilter } from '../domain/tags.ts'
import { toReason } from '../domain/text.ts'
import type { Admitter } from '../engine/admit.ts'
import { type LeaseTokens, newToken } from '../engine/lease-tokens.ts'
import { type SettleRequest, settle, settleRequest } from '../engine/settle.ts'
import { type LateAnswer, settleLate } from '../engine/settle-late.ts'
import { PosthornError } from '../errors.ts'
import type { Burial } from '../observe/hub-events.ts'
import type { Metrics } from '../observe/metrics.ts'
import { observePickup } from '../observe/pickup.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { leaseOldest } from './lease-oldest.ts'
import type { RecentSettlements } from './recent-settlements.ts'

export interface PollingParts {
  readonly db: Database
  readonly admitter: Admitter
  readonly subscriptions: SubscriptionCache
  readonly worker: () => Promise<number>
  readonly buried: (burial: Burial) => void
  readonly metrics: Metrics
  readonly recent: RecentSettlements
  readonly tokens: LeaseTokens
}

export interface PollOptions {
  /** Which pull subscription. Default: the work queue, where every event with tags goes. */
  readonly subscription?: string
  /** Only events with any of these tags. */
  readonly tags?: readonly string[]
  /** 1,000 to 43,200,000. Default: the subscription's. */
  readonly leaseMs?: number
}

/** How many leases one statement hands back at a stop. */
const handBackMax = 1_000

const pollNames: NamesOf<PollOptions> = { subscription: true, tags: true, leaseMs: true }

export interface FinalizeOptions {
  /** The subscription that the event was polled from; needed only if the event is held through several. */
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
  readonly cause?: 'finalized'
}

export interface PollingApi {
  /** Leases the oldest event that waits, or null. This hub remembers the lease for `finalize`. */
  poll(options?: PollOptions): Promise<StoredEvent | null>
  /**
   * Ends what `poll` leased: completed, or with errors for good, as a dead letter. A second call changes nothing, and an
   * event that this hub has not polled is left alone. Throws LEASE_LOST when the lease went to another worker, was buried,
   * or ended otherwise; AMBIGUOUS_LEASE when the event is held through several subscriptions and none is named.
   */
  finalize(eventId: number, errors?: readonly unknown[], options?: FinalizeOptions): Promise<void>
}

/** `hub.poll` and `hub.finalize`: the simplest way to consume, one event at a time, each ended by its id. */
export class Polling implements PollingApi {
  readonly #parts: PollingParts
  /** Events that this hub has polled, for `finalize` to settle. */
  readonly #polled = new PolledLeases<Polled>()
  readonly #underWay = new Set<Promise<unknown>>()
  #stopped = false

  constructor(parts: PollingParts) {
    this.#parts = parts
  }

  async poll(options?: PollOptions): Promise<StoredEvent | null> {
    if (this.#stopped) throw new PosthornError('STOPPED')
    const event = await this.#untilOver(this.#poll(options))
    // A stop that came meanwhile has handed the event back.
    return this.#stopped ? null : event
  }

  /** Waits for the calls under way, then hands back what was polled and not finalized, without counting a failure. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.allSettled(this.#underWay)
    const held = this.#polled.held
    for (const portion of portionsOf(held, { itemsMax: handBackMax })) {
      await settle(
        this.#parts.db,
        portion.map(({ request }) => ({ ...request, settlement: 'released' })),
      )
    }
  }

  async #poll(options: PollOptions = {}): Promise<StoredEvent | null> {
    checkOptions(options, pollNames, 'poll')
    if (options.tags !== undefined) checkTagFilter(options.tags)
    const asked =
      options.leaseMs === undefined ? undefined : integer('leaseMs', options.leaseMs, 1_000, 43_200_000)
    const subscription = await this.#parts.subscriptions.current(options.subscription ?? 'work')
    const request = {
      subscription,
      leaseMs: asked ?? subscription.leaseMs,
      tags: options.tags ?? null,
      token: newToken(),
      worker: await this.#parts.worker(),
      tokens: this.#parts.tokens,
      deliveriesMax: 1,
      runsMax: 1,
      begins: 'granted',
      suspects: true,
    } as const
    const [run] = await leaseOldest(this.#parts, request)
    const delivery = run?.deliveries[0]
    if (run === undefined || delivery === undefined) return null
    observePickup(this.#parts.metrics, run, request.leaseMs)
    const { event, failures } = delivery
    const lease = { runId: run.id, token: run.token, eventId: event.id, failures }
    this.#polled.remember({
      eventId: event.id,
      subscription: subscription.name,
      subscriptionNo: subscription.no,
      type: event.type,
      stopsLane: subscription.onExhausted === 'block' ? event.orderingKey : null,
      request: settleRequest(lease, { kind: 'complete' }),
    })
    return event
  }

  finalize(eventId: number, errors?: readonly unknown[], options?: FinalizeOptions): Promise<void> {
    return this.#untilOver(this.#finalize(eventId, errors, options))
  }

  async #finalize(
    eventId: number,
    errors: readonly unknown[] = [],
    options: FinalizeOptions = {},
  ): Promise<void> {
    checkOptions(options, { subscription: true }, 'finalize')
    checkEventId(eventId)
    if (!Array.isArray(errors)) {
      throw badOption('errors', 'a list of errors, empty if there was none', errors)
    }
    const polled = this.#polled.find(eventId, options.subscription)
    if (polled === undefined) return
    const ending = endingOf(errors)
    if (polled.ended === ending.settlement) return
    const answer = polled.ended ?? (await this.#settlePolled(polled, ending))
    if (answer === 'settled') return
    const state = answer === 'lost' ? 'leased to another worker, waiting or buried' : 'settled otherwise'
    throw new PosthornError('LEASE_LOST', { eventId, state })
  }

  async #settlePolled(polled: Polled, ending: Ending): Promise<LateAnswer> {
    const { db, buried, recent } = this.#parts
    const { subscriptionNo, ...burial } = polled
    const request = { ...polled.request, ...ending }
    const [rejected] = await settle(db, [request])
    if (rejected === undefined) recent.remember([request])
    const answer =
      rejected === undefined ? 'settled' : await settleLate(db, { subscription: subscriptionNo, request })
    // Another call for the same event may have finished first.
    if (polled.ended !== undefined || answer === 'settled otherwise') return answer
    this.#polled.end(polled, answer === 'lost' ? 'lost' : ending.settlement)
    if (polled.ended !== 'lost') this.#count(polled)
    if (polled.ended === 'buried') buried({ ...burial, reason: ending.reason ?? '' })
    return answer
  }

  /** Counts the call as under way, so that a stop waits for it. */
  async #untilOver<Answer>(call: Promise<Answer>): Promise<Answer> {
    this.#underWay.add(call)
    try {
      return await call
    } finally {
      this.#underWay.delete(call)
    }
  }

  #count({ subscription: name, ended }: Polled): void {
    const { attempts, label } = this.#parts.metrics
    attempts.inc({ subscription: label(name), settlement: ended === 'buried' ? 'bury' : 'complete' })
  }
}

function endingOf(errors: readonly unknown[]): Ending {
  if (errors.length === 0) return { settlement: 'completed', reason: null }
  const reason = toReason(`finalized with errors: ${errors.map(describeError).join('; ')}`)
  return { settlement: 'buried', reason, cause: 'finalized' }
}
