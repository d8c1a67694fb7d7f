import type { RunningAttempt } from './attempt.ts'
import type { HeldRun } from './share.ts'
import type { HeldLease, Source } from './source.ts'

export interface KeeperOptions {
  readonly source: Pick<Source, 'heartbeat'>
  readonly held: ReadonlySet<HeldRun>
  readonly attempts: ReadonlySet<RunningAttempt>
  /** How long a lease surely lasts that was renewed by a request of this moment. */
  readonly leaseMs: (held: HeldRun, askedAt: number) => number
  readonly lose: (held: HeldRun, why: string) => void
  readonly trouble: (error: unknown) => void
}

/** How often attempts are looked after: time limits, renewals, marks of what has begun. */
export const tickMs = 100

/** Keeps the leases of everything in hand alive, many with one statement. */
export class LeaseRenewer {
  readonly #options: KeeperOptions
  #beating: Promise<void> | undefined
  #doubtful = false

  constructor(options: KeeperOptions) {
    this.#options = options
  }

  /** The database was away and may have forgotten leases: all of them are asked about at the next beat. */
  doubt(): void {
    this.#doubtful = true
  }

  /** Renews leases that are due, and marks attempts that take longer than a moment as begun. */
  async beat(now: number): Promise<void> {
    if (this.#beating !== undefined) return
    const { held } = this.#options
    const { begun, unmarked } = this.#begun(now)
    const isDue = (one: HeldRun) => this.#doubtful || one.renewAt <= now || unmarked.has(one)
    const due = [...held].filter((one) => (one.notBefore ?? 0) <= now && isDue(one))
    if (due.length === 0) return
    // If not all can be asked about, those whose leases end first are.
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
    held.notBefore = held.holdsUntil - this.#options.leaseMs(held, performance.now()) / 3
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
    const { held, lose, trouble } = this.#options
    try {
      await this.#renew(due, begun, now)
      this.#doubtful = false
    } catch (error) {
      trouble(error)
      for (const one of due) {
        if (held.has(one) && performance.now() > one.holdsUntil) lose(one, 'its lease could not be renewed')
      }
    }
  }

  #begun(now: number): { begun: Map<HeldRun, number[]>; unmarked: Set<HeldRun> } {
    const begun = new Map<HeldRun, number[]>()
    const unmarked = new Set<HeldRun>()
    for (const { held, marked, startedAt, delivery } of this.#options.attempts) {
      const ids = begun.get(held)
      if (ids === undefined) begun.set(held, [delivery.event.id])
      else ids.push(delivery.event.id)
      if (!marked && now - startedAt > tickMs) unmarked.add(held)
    }
    return { begun, unmarked }
  }

  async #renew(due: readonly HeldRun[], begun: ReadonlyMap<HeldRun, number[]>, now: number): Promise<void> {
    const { source, held, lose } = this.#options
    const beats = due.map((one) => ({ run: one.run, begun: begun.get(one) ?? [] }))
    const answers = new Map((await source.heartbeat(beats)).map((answer) => [answer.run, answer]))
    const errors: unknown[] = []
    for (const one of due) {
      // Its subscription may have ended meanwhile, and the run with it.
      if (!held.has(one)) continue
      const answer = answers.get(one.run)
      if (answer?.unknown !== undefined) {
        errors.push(answer.unknown.error)
        this.#postpone(one, answer.unknown.waitMs)
      } else if (answer !== undefined) this.#renewed(one, answer, begun.get(one) ?? [], now)
      else lose(one, 'its lease was lost')
    }
    if (errors.length > 0) this.#options.trouble(errors[0])
  }

  /** Asked again in a while, and for the last time when the lease ends. */
  #postpone(held: HeldRun, waitMs: number): void {
    const now = performance.now()
    if (now > held.holdsUntil) this.#options.lose(held, 'its lease could not be renewed')
    const pauseMs = Math.max(waitMs, this.#options.leaseMs(held, now) / 12)
    held.notBefore = Math.min(now + pauseMs, Math.max(now + tickMs, held.holdsUntil))
    held.renewAt = held.notBefore
  }

  #renewed(held: HeldRun, { renewed, cancelled }: HeldLease, begun: readonly number[], now: number): void {
    const leaseMs = this.#options.leaseMs(held, now)
    held.renewAt = now + (renewed ? leaseMs / 3 : tickMs)
    if (renewed) held.holdsUntil = now + leaseMs
    for (const attempt of this.#options.attempts) {
      if (attempt.held === held && begun.includes(attempt.delivery.event.id)) attempt.marked = true
    }
    this.cancel(held, cancelled)
  }

  /** What an operator has cancelled of a run: what is under way is told to stop. An answer from before does not take it back. */
  cancel(held: HeldRun, eventIds: readonly number[]): void {
    if (eventIds.length === 0) return
    held.cancelled = [...new Set([...held.cancelled, ...eventIds])]
    for (const attempt of this.#options.attempts) {
      if (attempt.held === held && eventIds.includes(attempt.delivery.event.id)) cancelAttempt(attempt)
    }
  }
}

function cancelAttempt(attempt: RunningAttempt): void {
  attempt.cancelled = true
  attempt.abort(new Error('The event was cancelled'))
}
