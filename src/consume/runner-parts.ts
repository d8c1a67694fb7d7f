import type { LeasedDelivery } from '../domain/delivery.ts'
import type { RunningAttempt } from './attempt.ts'
import type { HeldRun } from './held-run.ts'
import type { Share } from './share.ts'
import type { SettleDelivery, Source } from './source.ts'
import type { Suspects } from './suspects.ts'
import type { Wakeup } from './wakeup.ts'

/** What a runner tells; it decides nothing by the answers. */
export interface RunnerObserver {
  /** The settlement of a delivery is durable. */
  settled(settled: SettleDelivery): void
  lost(delivery: LeasedDelivery, why: string): void
  trouble(error: unknown, doing: string): void
}

/** What the parts of one runner share. */
export interface RunnerParts {
  /** Another one from the moment on that the process wants a memory queue. */
  source: Source
  readonly observe: RunnerObserver
  readonly wakeup: Wakeup
  readonly suspects: Suspects
  /** No suspect is in hand any more, while a lease is perhaps being waited for that was asked for without suspects. */
  readonly suspectsCleared: () => void
  /** By subscription. A share that is gone is kept while something of it is held. */
  readonly shares: Map<number, Share>
  /** Runs in hand: not all of their deliveries are settled, handed back or lost. */
  readonly held: Set<HeldRun>
  /** Attempts that have begun and not ended. */
  readonly underWay: Set<RunningAttempt>
  /** How many attempts have begun and are not settled. */
  unsettled: number
  state: 'idle' | 'running' | 'stopping'
}

export function shareOf({ shares }: RunnerParts, { run }: HeldRun): Share {
  return shares.get(run.subscription) as Share
}
