import { Batcher } from '../core/batcher.ts'
import type { Database } from '../db/database.ts'
import { defaultRetry } from '../domain/retry.ts'
import { decideSettlement, type Outcome, type Settlement } from '../domain/settlement.ts'
import type { Subscription } from '../domain/subscription.ts'
import { type CompletedEach, type CompleteEach, completeEach } from '../engine/complete.ts'
import { type SettleRequest, settle, settleRequest } from '../engine/settle.ts'
import type { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { type FoundLease, findLeases, type LeaseClaim } from './find-leases.ts'
import type { GivenLease, GivenLeases } from './given-leases.ts'
import { ambiguousError, lostErrors } from './lost-leases.ts'
import type { RecentSettlements } from './recent-settlements.ts'
import {
  lastLeasesOf,
  readSettlements,
  type SettledLease,
  type SettlementRecord,
} from './settlement-record.ts'
import type { WaitingRoom } from './waiting-room.ts'
import type { WorkerNames } from './worker-names.ts'

/** What a worker in another process reports on an attempt. */
export interface Report {
  readonly claim: LeaseClaim
  readonly outcome: Exclude<Outcome, { kind: 'lease_expired' }> | { readonly kind: 'released' }
  readonly startedAfterMs: number | null
  readonly executionMs: number | null
  readonly statusCode: number | null
}

/** The record of the attempt, the same for every repeat of the report; or why there is none. */
export type Reply =
  | { readonly record: SettlementRecord; readonly maxRetries: number }
  /** The attempt is settled, and the caller did not ask for its record. */
  | { readonly record: null }
  | { readonly error: PosthornError }

type Decision = Settlement | { readonly kind: 'release' }

/** What observers get to know of a settled delivery. */
export interface PullSettled {
  readonly eventId: number
  readonly subscription: string
  readonly type: string | null
  readonly orderingKey: string | null
  readonly stopsLane: boolean
  readonly settlement: Decision
  readonly executionMs: number | null
}

export interface PullSettlerParts {
  readonly db: Database
  readonly subscriptions: SubscriptionCache
  readonly room: WaitingRoom
  readonly workers: WorkerNames
  readonly recent: RecentSettlements
  readonly given: GivenLeases
  readonly settled: (settled: PullSettled) => void
}

interface Item {
  readonly report: Report
  lease: FoundLease | undefined
  settlement: Decision | undefined
  reply: Reply | undefined
}

/** Completions that share one statement. */
const completionsMax = 200

/** Settles what workers in other processes report: many attempts in one statement, each with its own reply. */
export class PullSettler {
  readonly #parts: PullSettlerParts
  /** Completions of single deliveries: those that arrive together share a statement. */
  readonly #completions: Batcher<CompleteEach, CompletedEach | undefined>

  constructor(parts: PullSettlerParts) {
    this.#parts = parts
    this.#completions = new Batcher({
      flush: (requests) => completeEach(parts.db, requests),
      itemsMax: completionsMax,
      flushesMax: 2,
    })
  }

  async settle(reports: readonly Report[], { records }: { records: 'all' | 'failures' }): Promise<Reply[]> {
    const named = new Set<number>()
    const items = reports.map((report): Item => {
      const { eventId } = report.claim
      // The first report on an event counts, so later reports on the same event are looked at afterwards.
      const lease = named.has(eventId) ? undefined : this.#directLease(report)
      named.add(eventId)
      return { report, lease, settlement: undefined, reply: undefined }
    })
    const direct = items.filter((item) => item.lease !== undefined)
    // Reports of one call share a statement already, and are mostly on deliveries that were leased together.
    const [only] = direct
    if (only !== undefined && items.length === 1) await this.#complete(only)
    await this.#apply(direct.filter((item) => item.settlement === undefined))
    // The other leases must be looked up: by worker, or because a reclaim has moved them. A reclaim may come between two looks.
    for (let look = 0; look < 2; look++) {
      const open = items.filter((item) => item.settlement === undefined && item.reply === undefined)
      if (open.length > 0) await this.#find(open)
      const held = open.filter((item) => item.lease !== undefined && item.reply === undefined)
      if (held.length === 0) break
      await this.#apply(held)
    }
    await this.#answer(items, records)
    return items.map(({ reply }) => reply as Reply)
  }

  /** A completion needs only the token; the other outcomes depend on the failures so far. */
  #directLease({ claim, outcome }: Report): FoundLease | undefined {
    if (outcome.kind !== 'succeeded') return undefined
    if ('token' in claim) return leaseOf(claim.token)
    const given = this.#parts.given.find(claim.workerId, claim.eventId)
    return given && leaseOf(given)
  }

  /** Completes a delivery that is alone in its run. Others are left as they are. */
  async #complete(item: Item): Promise<void> {
    const { claim, startedAfterMs, executionMs, statusCode } = item.report
    const { runId, token, subscription, orderingKey } = item.lease as FoundLease
    if (orderingKey !== null) return
    const { eventId } = claim
    const request = { runId, token, eventId, startedAfterMs, executionMs, statusCode }
    const completed = await this.#completions.add(request)
    if (completed === undefined) return
    this.#parts.recent.remember([toRequest(item, { kind: 'complete' })])
    const rest = { maxRetries: null, statusCode, executionMs, reason: null, nextAt: null }
    const record = { ...completed, ...rest, eventId, subscription, settlement: 'completed' } as const
    const policy = (await this.#parts.subscriptions.numbered(subscription))?.retry ?? defaultRetry.pull
    item.reply = { record, maxRetries: policy.failuresMax }
    item.lease = { ...(item.lease as FoundLease), workerId: completed.workerId }
    await this.#note(item, { kind: 'complete' })
  }

  async #find(items: readonly Item[]): Promise<void> {
    const { db, subscriptions, workers } = this.#parts
    const found = await findLeases(
      db,
      items.map(({ report }) => report.claim),
    )
    for (const [place, item] of items.entries()) {
      const { claim } = item.report
      if ('workerId' in claim) workers.hear(claim.workerId)
      const leases = found[place] ?? []
      item.lease = leases[0]
      if (leases.length > 1)
        item.reply = { error: await ambiguousError(subscriptions, claim.eventId, leases) }
    }
  }

  /** Settles the attempts whose lease is still held. */
  async #apply(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return
    const { db } = this.#parts
    const settlements = await Promise.all(items.map((item) => this.#decide(item)))
    const requests = items.map((item, place) => toRequest(item, settlements[place] as Decision))
    const rejected = new Set(await settle(db, requests))
    this.#parts.recent.remember(requests.filter((_, place) => !rejected.has(place + 1)))
    for (const [place, item] of items.entries()) {
      if (!rejected.has(place + 1)) await this.#note(item, settlements[place] as Decision)
    }
  }

  /** Tells observers, and workers that wait, that a delivery is settled. */
  async #note(item: Item, settlement: Decision): Promise<void> {
    const { subscriptions, room, given, workers, settled } = this.#parts
    item.settlement = settlement
    const { claim, executionMs } = item.report
    const { subscription: no, type, orderingKey, workerId } = item.lease as FoundLease
    const subscription = await subscriptions.numbered(no)
    if (orderingKey !== null || settlement.kind === 'release' || isBounded(subscription)) room.lookSoon()
    const worker = 'workerId' in claim ? claim.workerId : workerId
    if (worker !== null) {
      workers.hear(worker)
      given.forget(worker, claim.eventId)
    }
    settled({
      eventId: claim.eventId,
      subscription: subscription?.name ?? 'unknown',
      type,
      orderingKey,
      settlement,
      stopsLane: subscription?.onExhausted === 'block',
      executionMs,
    })
  }

  async #decide({ report, lease }: Item): Promise<Decision> {
    const { outcome } = report
    if (outcome.kind === 'succeeded') return { kind: 'complete' }
    if (outcome.kind === 'released') return { kind: 'release' }
    const { failures, maxFailures: maxRetries, subscription } = lease as FoundLease
    const retry = (await this.#parts.subscriptions.numbered(subscription))?.retry ?? defaultRetry.pull
    return decideSettlement({ failures, retry, maxRetries }, outcome, Math.random())
  }

  /** Replies are read from the audit records, so that a repeat gets the first answer. */
  async #answer(items: readonly Item[], records: 'all' | 'failures'): Promise<void> {
    for (const item of items) {
      const isBrief = records === 'failures' && item.report.outcome.kind === 'succeeded'
      if (item.settlement !== undefined && isBrief) item.reply = { record: null }
    }
    const open = items.filter((item) => item.reply === undefined)
    if (open.length === 0) return
    const leases = await this.#lastLeases(open)
    const known = await readSettlements(
      this.#parts.db,
      leases.map((lease) => lease ?? { eventId: 0, subscription: 0, token: 0 }),
    )
    const lost: { item: Item; eventId: number; subscription: number | null }[] = []
    for (const [place, item] of open.entries()) {
      item.reply = await this.#replyTo(item, known[place])
      const { eventId } = item.report.claim
      if (item.reply === undefined)
        lost.push({ item, eventId, subscription: leases[place]?.subscription ?? null })
    }
    if (lost.length === 0) return
    const errors = await lostErrors(this.#parts.db, lost)
    for (const [place, { item }] of lost.entries()) item.reply = { error: errors[place] as PosthornError }
  }

  /** The lease that each report is about: by its token, or the lease that its worker holds or held last. */
  async #lastLeases(items: readonly Item[]): Promise<(SettledLease | undefined)[]> {
    const known = items.map(({ report: { claim }, lease }) => {
      const of = lease ?? ('token' in claim ? claim.token : undefined)
      return of && { eventId: claim.eventId, subscription: of.subscription, token: of.token }
    })
    const open = items.filter((_, place) => known[place] === undefined)
    const last = await lastLeasesOf(
      this.#parts.db,
      open.map(({ report: { claim } }) => claim as LeaseClaim & { workerId: string }),
    )
    return known.map((lease) => lease ?? last.shift())
  }

  /** Undefined: the attempt was not settled, or was settled with another outcome. */
  async #replyTo({ report }: Item, record: SettlementRecord | undefined): Promise<Reply | undefined> {
    if (record === undefined || !verbs[report.outcome.kind].includes(record.settlement)) return undefined
    const policy = (await this.#parts.subscriptions.numbered(record.subscription))?.retry ?? defaultRetry.pull
    return { record, maxRetries: record.maxRetries ?? policy.failuresMax }
  }
}

/** The settlements that an outcome can lead to: a repeat is recognised by them. A cancelled delivery ends as `cancelled`. */
const verbs: Record<Report['outcome']['kind'], readonly SettlementRecord['settlement'][]> = {
  succeeded: ['completed'],
  failed: ['retried', 'buried', 'cancelled'],
  snoozed: ['snoozed', 'cancelled'],
  buried: ['buried'],
  released: ['released', 'cancelled'],
}

/** Whether the end of one delivery lets another begin. */
function isBounded(subscription: Subscription | undefined): boolean {
  return subscription?.maxConcurrency != null || subscription?.keyConcurrency != null
}

/** Enough to complete the delivery: the token decides whether the lease still counts. */
function leaseOf({ runId, token, subscription, lane }: GivenLease): FoundLease {
  const orderingKey = lane ? '' : null
  const unknown = { failures: 0, maxFailures: null, inForce: true, type: null, workerId: null }
  return { ...unknown, runId, token, subscription, orderingKey }
}

function toRequest({ report, lease }: Item, settlement: Decision): SettleRequest {
  const { runId, token, failures } = lease as FoundLease
  return settleRequest({ runId, token, eventId: report.claim.eventId, failures }, settlement, report)
}
