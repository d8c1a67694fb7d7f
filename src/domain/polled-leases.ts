import { PosthornError } from '../errors.ts'

export interface PolledLease {
  readonly eventId: number
  /** The name of the subscription it was leased through. */
  readonly subscription: string
  /** How it ended, as far as this process knows. */
  ended?: 'completed' | 'buried' | 'lost'
}

/** Events whose leases are remembered; far more than anybody works on at once. */
const eventsMax = 10_000

/** What `poll` has leased and `finalize` will settle: per event, one lease for each subscription. */
export class PolledLeases<Lease extends PolledLease> {
  /** Of each event, in the order in which they were polled or, later, ended. */
  readonly #leases = new Map<number, Lease[]>()

  /** A later lease through the same subscription takes the place of an earlier one; the oldest are forgotten. */
  remember(lease: Lease): void {
    const others = this.#of(lease.eventId).filter((other) => other.subscription !== lease.subscription)
    this.#leases.delete(lease.eventId)
    this.#leases.set(lease.eventId, [...others, lease])
    const [oldest] = this.#leases.keys()
    if (this.#leases.size > eventsMax && oldest !== undefined) this.#leases.delete(oldest)
  }

  /**
   * The lease through the named subscription; with none named the one that is held, else the one last held. Undefined: the
   * event was never leased here.
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

  /** Those that have not ended. */
  get held(): Lease[] {
    return [...this.#leases.values()].flat().filter((lease) => lease.ended === undefined)
  }

  end(lease: Lease, how: NonNullable<PolledLease['ended']>): void {
    lease.ended = how
    const leases = this.#of(lease.eventId)
    // Unless a later lease has taken its place.
    if (leases.includes(lease)) {
      this.#leases.set(lease.eventId, [...leases.filter((other) => other !== lease), lease])
    }
  }

  #of(eventId: number): readonly Lease[] {
    return this.#leases.get(eventId) ?? []
  }
}
