import type { HeldRun } from './held-run.ts'
import type { Share } from './share.ts'

/**
 * How long a suspect that waits elsewhere keeps the others waiting: until it begins, and from then on. An endpoint that
 * hangs would hold up all others, and what is sent has done to this process what it could.
 */
const suspenseMs = { queued: 1_000, begun: 200 }

/** Runs that may have ended a process: one at a time is attempted, so that a crash is charged to its culprit. */
export class Suspects {
  /** Until when, monotonic, the others wait for each. */
  readonly #until = new Map<HeldRun, number>()

  /** Another suspect may be leased. */
  get isNone(): boolean {
    return this.#until.size === 0
  }

  queued(held: HeldRun, share: Share): void {
    this.#until.set(held, untilFor(share, suspenseMs.queued))
  }

  begun(held: HeldRun, share: Share): void {
    if (this.#until.has(held)) this.#until.set(held, untilFor(share, suspenseMs.begun))
  }

  /** The delivery goes on in another run. */
  moved(before: HeldRun, after: HeldRun): void {
    const until = this.#until.get(before)
    if (until !== undefined) this.#until.set(after, until)
  }

  /** The others need not wait for this run any more. */
  acquit(held: HeldRun): void {
    this.#until.delete(held)
  }

  /** Acquits runs that have kept the others waiting for long enough. Whether there were any. */
  acquitLate(now: number): boolean {
    const late = [...this.#until].filter(([, until]) => now >= until)
    for (const [held] of late) this.acquit(held)
    return late.length > 0
  }

  clear(): void {
    this.#until.clear()
  }
}

function untilFor({ waitsElsewhere }: Share, ms: number): number {
  return waitsElsewhere ? performance.now() + ms : Number.POSITIVE_INFINITY
}
