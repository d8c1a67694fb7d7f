import type { SettleDelivery } from '../consume/source.ts'
import type { LeasedDelivery, LeasedRun } from '../domain/delivery.ts'

/** Settlements by the statement that applies them. */
export interface SortedOut {
  /** Every delivery of a run succeeded; in the order of the run. */
  readonly wholeRuns: SettleDelivery[][]
  /** The head of a lane succeeded. */
  readonly heads: SettleDelivery[]
  readonly others: SettleDelivery[]
}

export function sortOut(settlements: readonly SettleDelivery[]): SortedOut {
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
