import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'
import { type HeldRun, holdRun } from './held-run.ts'
import { type RunnerParts, shareOf } from './runner-parts.ts'
import type { Share } from './share.ts'
import type { Source } from './source.ts'

/** Takes runs in hand, and lets go of them: settled, handed back or lost. */
export class HeldRuns {
  readonly #parts: RunnerParts

  constructor(parts: RunnerParts) {
    this.#parts = parts
  }

  /** A run that was leased, asked for at this moment. */
  hold(share: Share, run: LeasedRun, askedAt: number): void {
    const { held: allHeld, suspects } = this.#parts
    const held = holdRun(run, askedAt, share.leaseMs(askedAt))
    allHeld.add(held)
    if (run.suspect) suspects.queued(held, share)
    if (!run.memory?.holdsBack()) share.take(held)
  }

  /** Nothing of the run is under way, and nothing of it waits. */
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

  /** The lease is gone: another may have what has not begun, and what has begun is told to stop. */
  lose(held: HeldRun, why: string): void {
    for (const delivery of held.waiting) this.#parts.observe.lost(delivery, why)
    // Nobody else takes over what is in memory: it has to be handed back.
    if (held.run.memory?.settlesInMemory) void this.handBackSome([...held.waiting])
    shareOf(this.#parts, held).drop(held)
    for (const attempt of this.#parts.underWay) {
      if (attempt.held === held) attempt.abort(new Error('The lease was lost'))
    }
    if (held.underWay === 0) this.forget(held)
  }

  /** Nothing of the run may begin now, of which `next` was to be the next. What is under way ends. */
  putOff(held: HeldRun, next: LeasedDelivery): void {
    const unbegun = [next, ...held.waiting]
    shareOf(this.#parts, held).drop(held)
    held.goesBack = true
    if (held.underWay === 0) this.forget(held)
    else void this.handBackSome(unbegun)
  }

  /** Hands back what has not begun of a share: at once as far as the source can, or when the rest of its run has ended. */
  async giveUp(share: Share): Promise<void> {
    const held = [...this.#parts.held].filter((one) => shareOf(this.#parts, one) === share)
    const { idle, busy, unbegun } = sortedByWork(held)
    for (const one of held) share.drop(one)
    for (const one of busy) one.goesBack = true
    for (const one of idle) this.forget(one)
    this.#letGo(share)
    await Promise.all([this.handBack(idle.map(({ run }) => run)), this.handBackSome(unbegun)])
  }

  /** Nothing more begins: hands back what has not. Returns the runs of which something is under way. */
  dropAll(): { readonly busy: LeasedRun[]; readonly handedBack: Promise<unknown> } {
    const { idle, busy, unbegun } = sortedByWork([...this.#parts.held])
    for (const held of this.#parts.held) shareOf(this.#parts, held).drop(held)
    const handedBack = Promise.all([this.handBack(idle.map(({ run }) => run)), this.handBackSome(unbegun)])
    return { busy: busy.map(({ run }) => run), handedBack }
  }

  /** Nothing left in these runs has begun. */
  async handBack(runs: readonly LeasedRun[]): Promise<void> {
    if (runs.length > 0) await this.#try((source) => source.release(runs))
  }

  /** These have not begun, while others of their runs go on. */
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

  /** What waits for the lane, the limit or the suspect that is free now is looked for at once, or soon. */
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
