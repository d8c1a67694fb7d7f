import type { Subscription } from '../domain/subscription.ts'

/** The subscriptions that this process serves, by number, as they were last read. */
export class Served {
  readonly #byNumber = new Map<number, Subscription>()

  /** Undefined: this process does not serve the subscription. */
  get(subscriptionNumber: number): Subscription | undefined {
    return this.#byNumber.get(subscriptionNumber)
  }

  /** The same for a subscription that this process has leased from, which it therefore serves. */
  known(subscriptionNumber: number): Subscription {
    return this.#byNumber.get(subscriptionNumber) as Subscription
  }

  has(subscriptionNumber: number): boolean {
    return this.#byNumber.has(subscriptionNumber)
  }

  set(subscription: Subscription): void {
    this.#byNumber.set(subscription.no, subscription)
  }

  all(): Subscription[] {
    return [...this.#byNumber.values()]
  }
}
