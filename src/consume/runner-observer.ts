import type { LeasedDelivery } from '../domain/delivery.ts'
import type { SettleDelivery } from './source.ts'

/** What a runner tells; it decides nothing by the answers. */
export interface RunnerObserver {
  /** The settlement of a delivery is durable. */
  settled(settled: SettleDelivery): void
  lost(delivery: LeasedDelivery, why: string): void
  trouble(error: unknown, doing: string): void
}
