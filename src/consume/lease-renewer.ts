import type { HeldRun } from './held-run.ts'
import type { HeldRuns } from './held-runs.ts'
import { type RunnerParts, shareOf } from './runner-parts.ts'
import type { HeldLease } from './source.ts'

/** How often time limits are checked, leases renewed, and begun attempts marked. */
export const tickMs = 100

/** Renews the leases of all held runs, many with one statement. */
export class LeaseRenewer {
  readonly #parts: RunnerParts
  readonly #held: HeldRuns
  #beating: Promise<void> | undefined
  #doubtful = false

  constructor(parts: RunnerParts, held: HeldRuns) {
    this.#parts = parts
    this.#held = held
  }

  /** Leases may be lost: the next tick asks about all of them. */
  doubt(): void {
    this.#doubtful = true
  }

  /** The source was away, and may have forgotten leases. */
  failed(error: unknown, doing: string): void {
    this.#parts.observe.trouble(error, doing)
    this.doubt()
  }

  /** Renews leases that are due, and marks attempts that take longer than a moment as begun. */
  async beat(now: number): Promise<void> {
    if (this.#beating !== undefined) return
    const { begun, unmarked } = this.#begun(now)
    const isDue = (one: HeldRun) => this.#doubtful || one.renewAt <= now || unmarked.has(one)
    const due = [...this.#parts.held].filter((one) => (one.notBefore ?? 0) <= now && isDue(one))
    if (due.length === 0) return
    // If the source cannot be asked about all of them, leases that end first come first.
    due.sort((a, b) => a.holdsUntil - b.holdsUntil)
    this.#beating = this.#tryToRenew(due, begun, now)
    try {
      await this.#beating
    } finally {
      this.#beating = undefined
    }
  }

  /**
   * Leaves the run alone while `work` settles it in a caller's transaction: if that keeps its snapshot, a renewal between
   * the snapshot and the lock on the run would be a serialization failure. In the last third of the lease it is renewed all the same.
   */
  async withoutRenewing<T>(held: HeldRun, work: () => Promise<T>): Promise<T> {
    held.notBefore = held.holdsUntil - this.#leaseMs(held, performance.now()) / 3
    await this.#beating
    try {
      return await work()
    } finally {
      held.notBefore = 0
    }
  }

  async #tryToRenew(
    due: readonly HeldRun[],
    begun: ReadonlyMap<HeldRun, number[]>,
    now: number,
  ): Promise<void> {
    const { held, observe } = this.#parts
    try {
      await this.#renew(due, begun, now)
      this.#doubtful = false
    } catch (error) {
      observe.trouble(error, doing)
      for (const one of due) {
        if (held.has(one) && performance.now() > one.holdsUntil)
          this.#held.lose(one, 'its lease could not be renewed')
      }
    }
  }

  #begun(now: number): { begun: Map<HeldRun, number[]>; unmarked: Set<HeldRun> } {
    const begun = new Map<HeldRun, number[]>()
    const unmarked = new Set<HeldRun>()
    for (const { held, marked, startedAt, delivery } of this.#parts.underWay) {
      const ids = begun.get(held)
      if (ids === undefined) begun.set(held, [delivery.event.id])
      else ids.push(delivery.event.id)
      if (!marked && now - startedAt > tickMs) unmarked.add(held)
    }
    return { begun, unmarked }
  }

  async #renew(due: readonly HeldRun[], begun: ReadonlyMap<HeldRun, number[]>, now: number): Promise<void> {
    const { source, held, observe } = this.#parts
    const beats = due.map((one) => ({ run: one.run, begun: begun.get(one) ?? [] }))
    const answers = new Map((await source.heartbeat(beats)).map((answer) => [answer.run, answer]))
    const errors: unknown[] = []
    for (const one of due) {
      // The subscription may have ended meanwhile, and the run with it.
      if (!held.has(one)) continue
      const answer = answers.get(one.run)
      if (answer?.unknown !== undefined) {
        errors.push(answer.unknown.error)
        this.#postpone(one, answer.unknown.waitMs)
      } else if (answer !== undefined) this.#renewed(one, answer, begun.get(one) ?? [], now)
      else this.#held.lose(one, 'its lease was lost')
    }
    if (errors.length > 0) observe.trouble(errors[0], doing)
  }

  /** When a lease ends at the earliest that was renewed by a request of this moment. */
  #leaseMs(held: HeldRun, askedAt: number): number {
    return shareOf(this.#parts, held).leaseMs(askedAt)
  }

  /** Asks about the lease again later, and for the last time when it ends. */
  #postpone(held: HeldRun, waitMs: number): void {
    const now = performance.now()
    if (now > held.holdsUntil) this.#held.lose(held, 'its lease could not be renewed')
    const pauseMs = Math.max(waitMs, this.#leaseMs(held, now) / 12)
    held.notBefore = Math.min(now + pauseMs, Math.max(now + tickMs, held.holdsUntil))
    held.renewAt = held.notBefore
  }

  #renewed(held: HeldRun, { renewed, cancelled }: HeldLease, begun: readonly number[], now: number): void {
    const leaseMs = this.#leaseMs(held, now)
    held.renewAt = now + (renewed ? leaseMs / 3 : tickMs)
    if (renewed) held.holdsUntil = now + leaseMs
    for (const attempt of this.#parts.underWay) {
      if (attempt.held === held && begun.includes(attempt.delivery.event.id)) attempt.marked = true
    }
    this.cancel(held, cancelled)
  }

  /** An operator has cancelled these events: aborts their attempts. An older answer that does not name them changes nothing. */
  cancel(held: HeldRun, eventIds: readonly number[]): void {
    if (eventIds.length === 0) return
    held.cancelled = [...new Set([...held.cancelled, ...eventIds])]
    for (const attempt of this.#parts.underWay) {
      if (attempt.held !== held || !eventIds.includes(attempt.delivery.event.id)) continue
      attempt.cancelled = true
      attempt.abort(new Error('The event was cancelled'))
    }
  }
}

const doing = 'renewing leases'
