import type { LeasedRun } from '../domain/delivery.ts'

/** What a report needs that names only its worker. */
export interface GivenLease {
  readonly runId: number
  readonly token: number
  readonly subscription: number
  readonly lane: boolean
}

const keptMax = 20_000

/**
 * The leases that this process has given to pull workers lately. A worker that reports by its name is found here without a
 * statement. This is only a hint: the lease may have ended meanwhile, and the token decides.
 */
export class GivenLeases {
  /** `'several'`: the worker has leased the event more than once, so its name does not say which lease is meant. */
  readonly #leases = new Map<string, GivenLease | 'several'>()

  /** Call it only for an event that is owed to one subscription: else the name could mean a lease that another process gave. */
  remember(workerId: string, { id, token, subscription, laneKey, deliveries }: LeasedRun): void {
    for (const { event } of deliveries) {
      const key = keyOf(workerId, event.id)
      const lease = { runId: id, token, subscription, lane: laneKey !== null }
      this.#leases.set(key, this.#leases.has(key) ? 'several' : lease)
    }
    while (this.#leases.size > keptMax) this.#leases.delete(this.#leases.keys().next().value as string)
  }

  find(workerId: string, eventId: number): GivenLease | undefined {
    const lease = this.#leases.get(keyOf(workerId, eventId))
    return lease === 'several' ? undefined : lease
  }

  forget(workerId: string, eventId: number): void {
    this.#leases.delete(keyOf(workerId, eventId))
  }
}

function keyOf(workerId: string, eventId: number): string {
  return `${eventId} ${workerId}`
}
