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

/** How old an entry may be. What must not be late (status, limits, routes) is asked in the statements themselves. */
const freshMs = 5_000

/**
 * The subscriptions. Most requests need one and hardly any changes one, so those that are only looked up are as this
 * process last read them.
 */
export class SubscriptionCache {
  readonly #db: Database
  #byName = new Map<string, Subscription>()
  #byNo = new Map<number, Subscription>()
  /** Numbers that were looked for and not found since the last look. */
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
    // It may have been made a moment ago, anywhere.
    return this.#byName.get(name) ?? this.current(name)
  }

  /** The same, straight from the database. */
  async current(name: string): Promise<Subscription> {
    const found = await findSubscription(this.#db, this.#db, name)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
    return found
  }

  /** By number; undefined if it is gone. */
  async numbered(no: number): Promise<Subscription | undefined> {
    if (this.#isStale() || !(this.#byNo.has(no) || this.#gone.has(no))) {
      await this.#read()
      if (!this.#byNo.has(no)) this.#gone.add(no)
    }
    return this.#byNo.get(no)
  }

  /** How many failures are allowed to an event that is owed to these: of work its own, else the most. */
  async failuresMax(owed: readonly number[]): Promise<number | null> {
    const work = owed.includes(0) ? [0] : owed
    const found = await Promise.all(work.map((no) => this.numbered(no)))
    const limits = found.flatMap((one) => (one === undefined ? [] : [one.retry.failuresMax]))
    return limits.length === 0 ? null : Math.max(...limits)
  }

  /** A page of all there are, straight from the database. */
  list(paging?: Paging): Promise<SubscriberPage> {
    return listSubscribers(this.#db, paging)
  }

  /** Throws NOT_FOUND. */
  async get(id: string): Promise<Subscriber> {
    const found = await getSubscriber(this.#db, this.#db, id)
    if (found === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscriber', id })
    return found
  }

  /** Its name must be free. */
  async create(subscriber: NewSubscriber): Promise<Subscriber> {
    const created = await createSubscriber(this.#db, subscriber)
    this.forget()
    return created
  }

  /** Makes something else of one, as it is now. */
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

  /** Something was changed here: the next question is answered by the database. */
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
