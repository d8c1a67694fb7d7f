import type { LeasedDelivery } from '../domain/delivery.ts'
import type { RunningAttempt } from './attempt.ts'
import type { HeldRun } from './held-run.ts'
import type { Share } from './share.ts'
import type { SettleDelivery, Source } from './source.ts'
import type { Suspects } from './suspects.ts'
import type { Wakeup } from './wakeup.ts'

/** Hooks for metrics, logs and hub events. The runner ignores what they return. */
export interface RunnerObserver {
  /** The settlement of a delivery is durable. */
  settled(settled: SettleDelivery): void
  lost(delivery: LeasedDelivery, why: string): void
  trouble(error: unknown, doing: string): void
}

/** What the parts of one runner share. */
export interface RunnerParts {
  /** Replaced when the process first wants a memory queue: then it leases from memory and from the database. */
  source: Source
  readonly observe: RunnerObserver
  readonly wakeup: Wakeup
  readonly suspects: Suspects
  /** Called when no suspect is held any more: a long poll that asked for no suspects may be waiting. */
  readonly suspectsCleared: () => void
  /** By subscription. A share that is retired stays here while its runs are held. */
  readonly shares: Map<number, Share>
  /** Runs whose deliveries are not all settled, handed back or lost. */
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
