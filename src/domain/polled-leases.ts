import { PosthornError } from '../errors.ts'

export interface PolledLease {
  readonly eventId: number
  /** The name of the subscription that the event was polled from. */
  readonly subscription: string
  /** How the lease ended, as far as this process knows. */
  ended?: 'completed' | 'buried' | 'lost'
}

/** How many events are remembered: far more than a process works on at once. */
const eventsMax = 10_000

/** The leases that `poll` has taken and `finalize` will settle: for each event, one lease per subscription. */
export class PolledLeases<Lease extends PolledLease> {
  /** The leases of each event, in the order in which they were polled or ended. */
  readonly #leases = new Map<number, Lease[]>()

  /** A later lease from the same subscription replaces an earlier one. The oldest leases are forgotten. */
  remember(lease: Lease): void {
    const others = this.#of(lease.eventId).filter((other) => other.subscription !== lease.subscription)
    this.#leases.delete(lease.eventId)
    this.#leases.set(lease.eventId, [...others, lease])
    const [oldest] = this.#leases.keys()
    if (this.#leases.size > eventsMax && oldest !== undefined) this.#leases.delete(oldest)
  }

  /**
   * The lease from the named subscription; without a name the lease that is held, otherwise the one held last. Undefined: this
   * process has not polled the event.
   */
  find(eventId: number, subscription?: string): Lease | undefined {
    const all = this.#of(eventId)
    if (all.length === 0) return undefined
    const leases = all.filter((lease) => subscription === undefined || lease.subscription === subscription)
    const held = leases.filter((lease) => lease.ended === undefined)
    if (held.length > 1) {
      const subscriptions = held.map((lease) => lease.subscription).join(', ')
      throw new PosthornError('AMBIGUOUS_LEASE', { eventId, subscriptions })
    }
    const found = held[0] ?? leases.at(-1)
    if (found === undefined)
      throw new PosthornError('LEASE_LOST', { eventId, state: 'not leased through this subscription' })
    return found
  }

  /** The leases that have not ended. */
  get held(): Lease[] {
    return [...this.#leases.values()].flat().filter((lease) => lease.ended === undefined)
  }

  end(lease: Lease, how: NonNullable<PolledLease['ended']>): void {
    lease.ended = how
    const leases = this.#of(lease.eventId)
    // A later lease may have replaced this one.
    if (leases.includes(lease)) {
      this.#leases.set(lease.eventId, [...leases.filter((other) => other !== lease), lease])
    }
  }

  #of(eventId: number): readonly Lease[] {
    return this.#leases.get(eventId) ?? []
  }
}
