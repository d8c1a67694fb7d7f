import type { Paging } from '../core/paging.ts'
import type { Signals } from '../core/signals.ts'
import type { Database } from '../db/database.ts'
import type { Subscription } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import { getSubscriber, listSubscribers, type Subscriber, type SubscriberPage } from './subscribers.ts'
import {
  type ChangeRequest,
  changeSubscriber,
  createSubscriber,
  deleteSubscription,
  findSubscription,
  listSubscriptions,
  type NewSubscriber,
  redefine,
  type SetStatus,
  type SubscriberDefinition,
  setStatus,
} from './subscriptions.ts'

/** How old an entry may be. Statements check for themselves what must be current: status, limits and routes. */
const freshMs = 5_000

/**
 * Subscriptions as this process last read them: most requests need one, and few change one. Lists and changes go straight to the
 * database.
 */
export class SubscriptionCache {
  readonly #db: Database
  #byName = new Map<string, Subscription>()
  #byNo = new Map<number, Subscription>()
  /** Numbers that were not found since the last read. */
  readonly #gone = new Set<number>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(db: Database, signals: Signals) {
    this.#db = db
    signals.on('subscriptionsChanged', () => this.forget())
    signals.on('reconnected', () => this.forget())
  }

  /** Throws NOT_FOUND. */
  async named(name: string): Promise<Subscription> {
    if (this.#isStale()) await this.#read()
    // Another process may have created it a moment ago.
    return this.#byName.get(name) ?? this.current(name)
  }

  /** The same, straight from the database. */
  async current(name: string): Promise<Subscription> {
    const found = await findSubscription(this.#db, this.#db, name)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
    return found
  }

  /** Undefined: no subscription has this number now. */
  async numbered(no: number): Promise<Subscription | undefined> {
    if (this.#isStale() || !(this.#byNo.has(no) || this.#gone.has(no))) {
      await this.#read()
      if (!this.#byNo.has(no)) this.#gone.add(no)
    }
    return this.#byNo.get(no)
  }

  /** The failures allowed to an event that is owed to these subscriptions: those of the work queue, otherwise the highest. */
  async failuresMax(owed: readonly number[]): Promise<number | null> {
    const work = owed.includes(0) ? [0] : owed
    const found = await Promise.all(work.map((no) => this.numbered(no)))
    const limits = found.flatMap((one) => (one === undefined ? [] : [one.retry.failuresMax]))
    return limits.length === 0 ? null : Math.max(...limits)
  }

  /** A page of all subscriptions, from the database. */
  list(paging?: Paging): Promise<SubscriberPage> {
    return listSubscribers(this.#db, paging)
  }

  /** Throws NOT_FOUND. */
  async get(id: string): Promise<Subscriber> {
    const found = await getSubscriber(this.#db, this.#db, id)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscriber', id })
    return found
  }

  /** Throws NAME_TAKEN. */
  async create(subscriber: NewSubscriber): Promise<Subscriber> {
    const created = await createSubscriber(this.#db, subscriber)
    this.forget()
    return created
  }

  /** Changes a subscription to what `change` makes of its current definition. */
  async change(
    which: ChangeRequest,
    change: (before: Subscriber) => Partial<SubscriberDefinition> & { status?: SetStatus },
  ): Promise<Subscriber> {
    const changed = await changeSubscriber(this.#db, which, async (tx, before) => {
      const { definition, endpoint = null, status } = change(before)
      if (definition !== undefined) await redefine(tx, this.#db, { definition, endpoint })
      if (status !== undefined) await setStatus(tx, this.#db, { id: which.id, status })
      return (await getSubscriber(tx, this.#db, which.id)) as Subscriber
    })
    this.forget()
    return changed
  }

  async delete(which: ChangeRequest): Promise<void> {
    await changeSubscriber(this.#db, which, (tx) => deleteSubscription(tx, this.#db, { id: which.id }))
    this.forget()
  }

  /** The next lookup reads the database. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY
  }

  #isStale(): boolean {
    return performance.now() - this.#readAt > freshMs
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readAll(): Promise<void> {
    const askedAt = performance.now()
    const subscriptions = await listSubscriptions(this.#db)
    this.#byName = new Map(subscriptions.map((one) => [one.name, one]))
    this.#byNo = new Map(subscriptions.map((one) => [one.no, one]))
    this.#gone.clear()
    this.#readAt = askedAt
  }
}
