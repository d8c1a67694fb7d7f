import type { HeldRun } from './held-run.ts'
import type { Share } from './share.ts'

/**
 * How long a webhook that is a suspect keeps the other suspects waiting: before it begins, and after that. Without a limit, an
 * endpoint that hangs would hold up all others; and once its request is sent, it can hardly crash this process any more.
 */
const suspenseMs = { queued: 1_000, begun: 200 }

/** Runs that may have crashed a process. Only one is attempted at a time, so that a crash is charged to its culprit. */
export class Suspects {
  /** Until when (monotonic) the other suspects wait for each. */
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

  /** The other suspects no longer wait for this run. */
  acquit(held: HeldRun): void {
    this.#until.delete(held)
  }

  /** Lets go of suspects that have kept the others waiting for long enough. Returns whether there were any. */
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
