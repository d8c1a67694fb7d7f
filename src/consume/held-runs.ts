import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { type HeldRun, holdRun } from './held-run.ts'
import { type RunnerParts, shareOf } from './runner-parts.ts'
import type { Share } from './share.ts'
import type { Source } from './source.ts'

/** The runs that this process holds, until they are settled, handed back or lost. */
export class HeldRuns {
  readonly #parts: RunnerParts

  constructor(parts: RunnerParts) {
    this.#parts = parts
  }

  /** Adds a leased run; `askedAt` is when the lease was asked for. */
  hold(share: Share, run: LeasedRun, askedAt: number): void {
    const { held: allHeld, suspects } = this.#parts
    const held = holdRun(run, askedAt, share.leaseMs(askedAt))
    allHeld.add(held)
    if (run.suspect) suspects.queued(held, share)
    if (!run.memory?.holdsBack()) share.take(held)
  }

  /** No delivery of the run is under way or waits. */
  forget(held: HeldRun): void {
    const { held: allHeld, suspects, suspectsCleared } = this.#parts
    if (!allHeld.delete(held)) return
    const share = shareOf(this.#parts, held)
    suspects.acquit(held)
    if (held.run.suspect && suspects.isNone) suspectsCleared()
    if (held.goesBack) void this.handBack([held.run])
    this.#letGo(share)
    this.#wakeFor(held, share)
  }

  /** Nothing of the run begins, and the runner forgets it. */
  drop(held: HeldRun): void {
    shareOf(this.#parts, held).drop(held)
    this.forget(held)
  }

  /** The lease is lost: drops deliveries that have not begun, and aborts attempts under way. */
  lose(held: HeldRun, why: string): void {
    for (const delivery of held.waiting) this.#parts.observe.lost(delivery, why)
    // No other process can lease from this memory, so the deliveries are handed back.
    if (held.run.memory?.settlesInMemory) void this.handBackSome([...held.waiting])
    shareOf(this.#parts, held).drop(held)
    for (const attempt of this.#parts.underWay) {
      if (attempt.held === held) attempt.abort(new Error('The lease was lost'))
    }
    if (held.underWay === 0) this.forget(held)
  }

  /** Hands back `next` and all other deliveries of the run that have not begun. Attempts under way go on. */
  putOff(held: HeldRun, next: LeasedDelivery): void {
    const unbegun = [next, ...held.waiting]
    shareOf(this.#parts, held).drop(held)
    held.goesBack = true
    if (held.underWay === 0) this.forget(held)
    else void this.handBackSome(unbegun)
  }

  /** Hands back the share's deliveries that have not begun: at once if the source can, else when the rest of their run has ended. */
  async giveUp(share: Share): Promise<void> {
    const held = [...this.#parts.held].filter((one) => shareOf(this.#parts, one) === share)
    const { idle, busy, unbegun } = sortedByWork(held)
    for (const one of held) share.drop(one)
    for (const one of busy) one.goesBack = true
    for (const one of idle) this.forget(one)
    this.#letGo(share)
    await Promise.all([this.handBack(idle.map(({ run }) => run)), this.handBackSome(unbegun)])
  }

  /** Hands back all deliveries that have not begun. Returns the runs that have attempts under way. */
  dropAll(): { readonly busy: LeasedRun[]; readonly handedBack: Promise<unknown> } {
    const { idle, busy, unbegun } = sortedByWork([...this.#parts.held])
    for (const held of this.#parts.held) shareOf(this.#parts, held).drop(held)
    const handedBack = Promise.all([this.handBack(idle.map(({ run }) => run)), this.handBackSome(unbegun)])
    return { busy: busy.map(({ run }) => run), handedBack }
  }

  /** Hands back these runs, in which no delivery has begun. */
  async handBack(runs: readonly LeasedRun[]): Promise<void> {
    if (runs.length > 0) await this.#try((source) => source.release(runs))
  }

  /** Hands back these deliveries, which have not begun, while others of their runs go on. */
  async handBackSome(deliveries: readonly LeasedDelivery[]): Promise<void> {
    if (deliveries.length > 0) await this.#try((source) => source.releaseSome(deliveries))
  }

  /** Without the database this fails, and the leases run out by themselves. */
  async #try(release: (source: Source) => Promise<void>): Promise<void> {
    try {
      await release(this.#parts.source)
    } catch (error) {
      this.#parts.observe.trouble(error, 'handing leases back')
    }
  }

  #letGo({ subscription: { no, status } }: Share): void {
    if (status !== 'deleted' || [...this.#parts.held].some(({ run }) => run.subscription === no)) return
    this.#parts.shares.delete(no)
  }

  /** A lane, a limit or a suspect is free now: looks at once, or soon, for deliveries that waited for it. */
  #wakeFor({ lane, run }: HeldRun, { limited, gated }: Share): void {
    const { wakeup, unsettled } = this.#parts
    const unblocks = lane || gated || run.suspect
    if (limited || (unblocks && unsettled === 0)) wakeup.wake()
    else if (unblocks) wakeup.wakeSoon()
    else wakeup.slotFree()
  }
}

function sortedByWork(held: readonly HeldRun[]) {
  const idle = held.filter(({ underWay }) => underWay === 0)
  const busy = held.filter(({ underWay }) => underWay > 0)
  return { idle, busy, unbegun: busy.flatMap(({ waiting }) => waiting) }
}
