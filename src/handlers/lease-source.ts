import type {
  Beat,
  Completion,
  HeldLease,
  Isolated,
  LeaseAnswer,
  SettleAnswer,
  SettleDelivery,
  Source,
  Want,
} from '../consume/source.ts'
import type { Core } from '../core/core.ts'
import { type CallerTransaction, rowsOf } from '../domain/caller-transaction.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { isLimited } from '../domain/subscription.ts'
import type { Admitter } from '../engine/admit.ts'
import { complete, completeHeads } from '../engine/complete.ts'
import { heartbeat } from '../engine/heartbeat.ts'
import { isolate } from '../engine/isolate.ts'
import { lease } from '../engine/lease.ts'
import type { LeaseTokens } from '../engine/lease-tokens.ts'
import { hasWork } from '../engine/peek.ts'
import { release } from '../engine/release.ts'
import { type SettleRequest, settle, settleRequest, settleValues } from '../engine/settle.ts'
import {
  type CompletedQuestion,
  isCompleted,
  isCompletedBy,
  settleIsolated,
  settleLate,
} from '../engine/settle-late.ts'
import { settleStatement } from '../engine/settle-statements.ts'
import type { SharedPeek } from '../engine/shared-peek.ts'
import { checkSnapshot } from '../engine/snapshot.ts'
import { observePickup } from '../observe/pickup.ts'
import type { Served } from '../subscriptions/served.ts'
import { type AttemptExchange, recordExchanges } from '../webhooks/send/record-exchanges.ts'
import type { WebhookNotes } from '../webhooks/send/webhook-notes.ts'
import { sortOut } from './sorted-out.ts'

export interface LeaseSourceNeeds {
  readonly admitter: Admitter
  readonly tokens: LeaseTokens
  readonly served: Pick<Served, 'known'>
  readonly sharedPeek: SharedPeek
  readonly notes: WebhookNotes
}

type LeaseSourceOptions = LeaseSourceNeeds & Pick<Core, 'db' | 'worker' | 'metrics' | 'signals' | 'trouble'>

/** The source of a hub's runner: leases from the database and settles in it, many deliveries in one statement. */
export class LeaseSource implements Source {
  readonly #options: LeaseSourceOptions
  readonly #isolated = new WeakMap<LeasedDelivery, Isolated>()
  #admitting = false

  constructor(core: Core, needs: LeaseSourceNeeds) {
    this.#options = { ...core, ...needs }
  }

  /**
   * Returns at once the runs that it finds. Arrivals in the inbox may be older than these, so now and then it also
   * admits, beside the lease.
   */
  async lease(wants: readonly Want[]): Promise<LeaseAnswer> {
    const { admitter } = this.#options
    // Admits first: a probe takes the oldest due delivery, also if no look has made it ready yet.
    if (wants.some(({ probe }) => probe)) await admitter.admit()
    const runs = await this.#lease(wants)
    if (runs.length > 0) {
      if (admitter.isDue()) void this.#admitBeside()
      return { runs, again: false }
    }
    if (this.#admitting) return { runs, again: true }
    const { moved, busy, drained } = await admitter.admit()
    if (moved === 0) return { runs, again: busy }
    return { runs: await this.#lease(wants), again: !drained }
  }

  async peek(subscriptions: readonly number[]): Promise<boolean> {
    return hasWork(await this.#options.sharedPeek.look(subscriptions), subscriptions)
  }

  /** Most attempts succeed, and successes have statements of their own. All other settlements go to `settle`. */
  async settle(settlements: readonly SettleDelivery[]): Promise<SettleAnswer[]> {
    const answers = new Map<SettleDelivery, SettleAnswer>()
    await recordExchanges(this.#options.db, settlements.flatMap(toExchange))
    const { wholeRuns, heads, others } = sortOut(settlements)
    const [unfinishedRuns, unfinishedHeads] = await Promise.all([
      this.#completeRuns(wholeRuns),
      this.#completeHeads(heads),
    ])
    const rest = [...others, ...unfinishedRuns, ...unfinishedHeads]
    for (const lost of rest.length === 0 ? [] : await this.#settleEach(rest)) {
      answers.set(lost, (await this.isCompleted(lost.delivery)) ? 'completed' : 'lost')
    }
    // A refused run may still be leased to this process, which forgets the run now.
    if (answers.size > 0) this.#options.signals.emit('leaseDoubted')
    return settlements.map((settlement) => answers.get(settlement) ?? 'settled')
  }

  async heartbeat(beats: readonly Beat[]): Promise<HeldLease[]> {
    // After a failover a run of the server that is gone may have the same id as a newer one.
    const runs = new Map(beats.map(({ run }) => [`${run.id} ${run.token}`, run]))
    const held = await heartbeat(
      this.#options.db,
      beats.map(({ run, begun }) => ({
        runId: run.id,
        token: run.token,
        leaseMs: this.#options.served.known(run.subscription).leaseMs,
        begun,
      })),
    )
    return held.map(({ runId, token, cancelled, leasedUntil }) => ({
      run: runs.get(`${runId} ${token}`) as LeasedRun,
      cancelled,
      renewed: leasedUntil !== null,
    }))
  }

  async release(runs: readonly LeasedRun[]): Promise<void> {
    await release(
      this.#options.db,
      runs.map(({ id, token }) => ({ runId: id, token })),
    )
  }

  async releaseSome(): Promise<void> {
    // A run in the database can only go back as a whole.
  }

  /** Locks the run only once: at the second call, the transaction that asks may itself hold the lock. */
  async isolate(delivery: LeasedDelivery): Promise<Isolated | undefined> {
    const before = this.#isolated.get(delivery)
    if (before !== undefined) return before
    const { run, event } = delivery
    const alone = await isolate(this.#options.db, { runId: run.id, token: run.token, eventId: event.id })
    if (alone === undefined) return undefined
    const { runId, mark } = alone
    const isolated = { run: runId === run.id ? run : { ...run, id: runId, deliveries: [delivery] }, mark }
    this.#isolated.set(delivery, isolated)
    return isolated
  }

  async completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean> {
    const { db } = this.#options
    await checkSnapshot(tx, completion.mark)
    const request = toRequest({ ...completion, settlement: { kind: 'complete' } })
    const answer = await tx.query(settleStatement(db).text, settleValues([request]))
    return rowsOf(answer).length === 0 || isCompletedBy(tx, db, nameOf(completion.delivery))
  }

  isCompleted(delivery: LeasedDelivery): Promise<boolean> {
    return isCompleted(this.#options.db, nameOf(delivery))
  }

  async #admitBeside(): Promise<void> {
    if (this.#admitting) return
    this.#admitting = true
    try {
      const { moved } = await this.#options.admitter.admit()
      if (moved > 0) this.#options.signals.emit('wakeHandlers')
    } catch (error) {
      this.#options.trouble(error, 'admitting arrivals')
    } finally {
      this.#admitting = false
    }
  }

  /** Returns the settlements of runs that were not in the expected state. */
  async #completeRuns(runs: readonly SettleDelivery[][]): Promise<SettleDelivery[]> {
    if (runs.length === 0) return []
    const completed = new Set(
      await complete(
        this.#options.db,
        runs.map((settlements) => ({
          runId: runOf(settlements[0]).id,
          token: runOf(settlements[0]).token,
          startedAfterMs: settlements.map((settlement) => settlement.startedAfterMs),
          executionMs: settlements.map((settlement) => settlement.executionMs),
        })),
      ),
    )
    return runs.filter((_, position) => !completed.has(position + 1)).flat()
  }

  async #completeHeads(heads: readonly SettleDelivery[]): Promise<SettleDelivery[]> {
    if (heads.length === 0) return []
    const rejected = await completeHeads(
      this.#options.db,
      heads.map(({ delivery, startedAfterMs, executionMs }) => ({
        runId: delivery.run.id,
        token: delivery.run.token,
        eventId: delivery.event.id,
        attempt: delivery.attempt,
        failures: delivery.failures,
        startedAfterMs,
        executionMs,
      })),
    )
    return rejected.map((position) => heads[position - 1] as SettleDelivery)
  }

  /** Returns the settlements whose lease is lost. */
  async #settleEach(settlements: readonly SettleDelivery[]): Promise<SettleDelivery[]> {
    const { db } = this.#options
    const requests = settlements.map(toRequest)
    const lost: SettleDelivery[] = []
    for (const position of await settle(db, requests)) {
      const request = requests[position - 1] as SettleRequest
      const settlement = settlements[position - 1] as SettleDelivery
      const late = { subscription: runOf(settlement).subscription, request }
      if ((await settleLate(db, late)) === 'settled') continue
      if ((await settleIsolated(db, late)) === 'lost') lost.push(settlement)
    }
    return lost
  }

  async #lease(wants: readonly Want[]): Promise<LeasedRun[]> {
    const { db, worker, tokens, served, metrics } = this.#options
    const token = tokens.draw()
    try {
      const runs = await lease(db, {
        wants: wants.map((want) => {
          const one = served.known(want.subscription)
          return { ...want, leaseMs: one.leaseMs, limited: isLimited(one) }
        }),
        token,
        worker: await worker(),
        begins: 'reported',
        tags: null,
      })
      await this.#prepare(runs)
      for (const run of runs) observePickup(metrics, run, served.known(run.subscription).leaseMs)
      return runs
    } finally {
      tokens.arrived(token)
    }
  }

  /** Reads what webhooks need before they are sent. Runs that cannot be prepared are handed back at once. */
  async #prepare(runs: readonly LeasedRun[]): Promise<void> {
    try {
      await this.#options.notes.read(runs)
    } catch (error) {
      await this.release(runs)
      throw error
    }
  }
}

function nameOf({ run, event }: LeasedDelivery): CompletedQuestion {
  return { eventId: event.id, subscription: run.subscription, token: run.token }
}

function runOf(settlement: SettleDelivery | undefined): LeasedRun {
  return (settlement as SettleDelivery).delivery.run
}

function toRequest(settled: SettleDelivery): SettleRequest {
  const { delivery, settlement, startedAfterMs, executionMs, exchange } = settled
  const { run, event, failures } = delivery
  const lease = { runId: run.id, token: run.token, eventId: event.id, failures }
  const statusCode = exchange?.statusCode ?? null
  return settleRequest(lease, settlement, { startedAfterMs, executionMs, statusCode })
}

function toExchange({ delivery, executionMs, exchange }: SettleDelivery): AttemptExchange[] {
  if (exchange === undefined) return []
  const { run, event, attempt } = delivery
  const { subscription, token } = run
  return [{ eventId: event.id, subscription, token, attempt, ageMs: executionMs, exchange }]
}
