import type { Runner } from '../consume/runner.ts'
import type { Core } from '../core/core.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { LeaseTokens } from '../engine/lease-tokens.ts'
import type { HandOver, WaitingRunner } from '../engine/publish-contract.ts'
import { observePickup } from '../observe/pickup.ts'
import type { Served } from '../subscriptions/served.ts'

export interface HandOverNeeds {
  readonly runner: Pick<Runner, 'idle' | 'take'>
  readonly tokens: LeaseTokens
  readonly served: Pick<Served, 'known'>
}

/** Hands published deliveries straight to the runner of this process: the handler starts after one commit, not two. */
export function createHandOver(
  { worker, metrics }: Pick<Core, 'worker' | 'metrics'>,
  { runner, tokens, served }: HandOverNeeds,
): HandOver {
  return {
    idle: async (deliveries): Promise<WaitingRunner | undefined> => {
      const subscriptions = runner.idle(deliveries)
      if (subscriptions.length === 0) return undefined
      const [workerNumber, token] = [await worker(), tokens.draw()]
      return { subscriptions, token, worker: workerNumber, arrived: () => tokens.arrived(token) }
    },
    take: async (runs: readonly LeasedRun[], askedAt) => {
      const taken = runner.take(runs, askedAt)
      for (const run of runs) observePickup(metrics, run, served.known(run.subscription).leaseMs)
      await taken
    },
  }
}
