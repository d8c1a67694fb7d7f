import { randomInt } from 'node:crypto'
import type {
  Beat,
  Completion,
  HeldLease,
  LeaseAnswer,
  SettleAnswer,
  SettleDelivery,
  Source,
  Want,
} from './consume/source.ts'
import type { Database } from './db/database.ts'
import type { LeasedDelivery, LeasedRun } from './domain/delivery.ts'
import { isLimited, type Subscription } from './domain/subscription.ts'
import type { CallerTransaction } from './domain/transaction.ts'
import type { Admitter } from './operations/admit.ts'
import { complete, completeHeads } from './operations/complete.ts'
import { type AttemptExchange, recordExchanges } from './operations/exchanges.ts'
import { heartbeat } from './operations/heartbeat.ts'
import { isCompleted } from './operations/is-completed.ts'
import { isolate } from './operations/isolate.ts'
import { lease } from './operations/lease.ts'
import { hasWork, type Peek } from './operations/peek.ts'
import { release } from './operations/release.ts'
import {
  type SettleRequest,
  settle,
  settleRequest,
  settleStatement,
  settleValues,
} from './operations/settle.ts'
import { settleLate } from './operations/settle-late.ts'

export interface LeaseSourceOptions {
  readonly db: Database
  readonly admitter: Admitter
  readonly worker: () => Promise<number>
  readonly subscription: (no: number) => Subscription
  readonly leased: (run: LeasedRun, leaseMs: number) => void
  /** What must be known of leased runs before they can be attempted. */
  readonly prepare: (runs: readonly LeasedRun[]) => Promise<void>
  /** Whether there is anything to do. */
  readonly look: (subscriptions: readonly number[]) => Promise<Peek>
  /** There is more to lease than there was. */
  readonly admitted: () => void
  readonly trouble: (error: unknown, doing: string) => void
}

/** The hub's end of the runner: leases from the database, settlements back to it, many in one statement. */
export class LeaseSource implements Source {
  readonly #options: LeaseSourceOptions
  #admitting = false

  constructor(options: LeaseSourceOptions) {
    this.#options = options
  }

  /**
   * What is found is answered at once. Arrivals may be older than what is found without them, so now and then
   * they are let in beside.
   */
  async lease(wants: readonly Want[]): Promise<LeaseAnswer> {
    const { admitter } = this.#options
    // A probe is to be made with the oldest that is due, also if nobody has looked for it since.
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
    return hasWork(await this.#options.look(subscriptions), subscriptions)
  }

  /** Most attempts succeed, and successes have statements of their own: `settle` gets what is left of them. */
  async settle(settlements: readonly SettleDelivery[]): Promise<SettleAnswer[]> {
    const answers = new Map<SettleDelivery, SettleAnswer>()
    await recordExchanges(this.#options.db, settlements.flatMap(toExchange))
    const { wholeRuns, heads, others } = sortOut(settlements)
    const [unfinishedRuns, unfinishedHeads] = await Promise.all([
      this.#completeRuns(wholeRuns),
      this.#completeHeads(heads),
    ])
    const rest = [...others, ...unfinishedRuns, ...unfinishedHeads]
    for (const lost of rest.length === 0 ? [] : await this.#settleEach(rest)) answers.set(lost, 'lost')
    return settlements.map((settlement) => answers.get(settlement) ?? 'settled')
  }

  async heartbeat(beats: readonly Beat[]): Promise<HeldLease[]> {
    const runs = new Map(beats.map(({ run }) => [run.id, run]))
    const held = await heartbeat(
      this.#options.db,
      beats.map(({ run, begun }) => ({
        runId: run.id,
        token: run.token,
        leaseMs: this.#options.subscription(run.subscription).leaseMs,
        begun,
      })),
    )
    return held.map(({ runId, cancelled, leasedUntil }) => ({
      run: runs.get(runId) as LeasedRun,
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

  async isolate(delivery: LeasedDelivery): Promise<LeasedRun | undefined> {
    const { run, event } = delivery
    const runId = await isolate(this.#options.db, { runId: run.id, token: run.token, eventId: event.id })
    if (runId === undefined) return undefined
    return runId === run.id ? run : { ...run, id: runId, deliveries: [delivery] }
  }

  async completeIn(tx: CallerTransaction, completion: Completion): Promise<boolean> {
    const request = toRequest({ ...completion, settlement: { kind: 'complete' } })
    const { rows } = await tx.query(settleStatement(this.#options.db).text, settleValues([request]))
    return rows.length === 0
  }

  isCompleted({ run, event }: LeasedDelivery): Promise<boolean> {
    const { token, subscription } = run
    return isCompleted(this.#options.db, { eventId: event.id, subscription, token })
  }

  async #admitBeside(): Promise<void> {
    if (this.#admitting) return
    this.#admitting = true
    try {
      const { moved } = await this.#options.admitter.admit()
      if (moved > 0) this.#options.admitted()
    } catch (error) {
      this.#options.trouble(error, 'letting arrivals in')
    } finally {
      this.#admitting = false
    }
  }

  /** Returns the settlements of those runs that were not as they should be. */
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

  /** Returns those whose lease is lost. */
  async #settleEach(settlements: readonly SettleDelivery[]): Promise<SettleDelivery[]> {
    const { db } = this.#options
    const requests = settlements.map(toRequest)
    const lost: SettleDelivery[] = []
    for (const position of await settle(db, requests)) {
      const request = requests[position - 1] as SettleRequest
      const settlement = settlements[position - 1] as SettleDelivery
      const answer = await settleLate(db, { subscription: runOf(settlement).subscription, request })
      if (answer !== 'settled') lost.push(settlement)
    }
    return lost
  }

  async #lease(wants: readonly Want[]): Promise<LeasedRun[]> {
    const { db, worker, subscription, leased } = this.#options
    const runs = await lease(db, {
      wants: wants.map((want) => {
        const one = subscription(want.subscription)
        return { ...want, leaseMs: one.leaseMs, limited: isLimited(one) }
      }),
      token: newToken(),
      worker: await worker(),
      begins: 'reported',
      tags: null,
    })
    await this.#prepare(runs)
    for (const run of runs) leased(run, subscription(run.subscription).leaseMs)
    return runs
  }

  /** What cannot be prepared goes back at once, or it would be held by nobody until its lease ends. */
  async #prepare(runs: readonly LeasedRun[]): Promise<void> {
    try {
      await this.#options.prepare(runs)
    } catch (error) {
      await this.release(runs)
      throw error
    }
  }
}

interface SortedOut {
  /** Every delivery of a run succeeded; in the order of the run. */
  readonly wholeRuns: SettleDelivery[][]
  /** The head of a lane succeeded. */
  readonly heads: SettleDelivery[]
  readonly others: SettleDelivery[]
}

function sortOut(settlements: readonly SettleDelivery[]): SortedOut {
  const heads: SettleDelivery[] = []
  const others: SettleDelivery[] = []
  const perRun = new Map<LeasedRun, Map<LeasedDelivery, SettleDelivery>>()
  for (const settlement of settlements) {
    const { delivery } = settlement
    const { run } = delivery
    if (settlement.settlement.kind !== 'complete') others.push(settlement)
    else if (run.laneKey !== null) heads.push(settlement)
    else {
      const known = perRun.get(run)
      if (known === undefined) perRun.set(run, new Map([[delivery, settlement]]))
      else known.set(delivery, settlement)
    }
  }
  const wholeRuns: SettleDelivery[][] = []
  for (const [run, completed] of perRun) {
    if (completed.size < run.deliveries.length) others.push(...completed.values())
    else wholeRuns.push(run.deliveries.map((delivery) => completed.get(delivery) as SettleDelivery))
  }
  return { wholeRuns, heads, others }
}

function runOf(settlement: SettleDelivery | undefined): LeasedRun {
  return (settlement as SettleDelivery).delivery.run
}

/** Random, so that a counter which a failover set back can't be taken for a newer lease. */
export function newToken(): number {
  return randomInt(1, 2 ** 48 - 1)
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
