import { setTimeout as delay } from 'node:timers/promises'
import type { Connection, Database } from '../db/database.ts'
import type { Catalogue } from '../domain/catalogue.ts'
import { type EventInput, type NewEvent, parseEvent } from '../domain/event.ts'
import type { CallerTransaction } from '../domain/transaction.ts'
import { PosthornError } from '../errors.ts'
import {
  type IdleRunner,
  type PublishAnswer,
  type Published,
  publish,
  publishIn,
  type Refusal,
} from '../operations/publish.ts'
import { orNothing } from '../operations/savepoint.ts'
import { portionsOf } from '../portions.ts'
import { GroupCommit, isKeyed, lockTimeoutMs, statementLimits } from './group-commit.ts'
import { refusalError } from './refusal.ts'

export interface PublishOptions {
  /** Your own transaction: the events exist if and when it commits. */
  readonly tx?: CallerTransaction
  /** With `tx`: `false` leaves it to polling to find the events, instead of notifying at commit. Default `true`. */
  readonly notify?: boolean
}

/** What a publisher gets back. */
export interface PublishedEvent {
  readonly id: number
  /** The idempotency key was used before: this is the first event. */
  readonly replayed: boolean
  /** To how many subscriptions it is owed. */
  readonly deliveries: number
  readonly createdAt: Date
  /** Queues it is owed to that are past their high watermark, by name: publish more slowly. */
  readonly backpressure: readonly string[]
}

export interface PublisherOptions {
  readonly db: Database
  readonly catalogue: Catalogue | undefined
  readonly requireRoute: boolean
  /** Names this process in notifications, so that it does not wake itself. */
  readonly processId: string
  readonly channel: string
  /** Who would begin this many deliveries at once. */
  readonly idle: (events: number) => Promise<IdleRunner | undefined>
  readonly published: (answer: PublishAnswer, events: readonly NewEvent[], askedAt: number) => Promise<void>
  /** A queue did not take an event. */
  readonly refused: (refusal: Refusal) => void
  /** Queues that events were just published to are past their high watermark. */
  readonly pressed: (queues: readonly string[]) => void
  /** How long a call took, from its beginning until its events were committed and told. */
  readonly took: (ms: number) => void
  readonly trouble: (error: unknown, doing: string) => void
}

const callLimits = statementLimits(5_000)
/** Other processes are told at most this often; in between they are told once, at the end. */
const notifyEveryMs = 5

/** Publishes: calls that arrive together share one statement and one commit. */
export class Publisher {
  readonly #options: PublisherOptions
  readonly #group: GroupCommit
  /** Batches that callers have put together themselves. */
  readonly #underWay = new Set<Promise<unknown>>()
  #notifiedAt = Number.NEGATIVE_INFINITY
  #notifying: Promise<void> | undefined

  constructor(options: PublisherOptions) {
    this.#options = options
    this.#group = new GroupCommit((events) => this.#publishAtOnce(events))
  }

  async publish(input: EventInput, options: PublishOptions = {}): Promise<PublishedEvent> {
    const [event] = (await this.#parseAll([input])) as [NewEvent]
    if (options.tx !== undefined)
      return this.#publishIn(options.tx, [event], options).then(([one]) => one as PublishedEvent)
    return this.#answer(event, await this.publishParsed(event))
  }

  /** The same for an event that was parsed before. A key that was used for another event is the caller's to judge. */
  async publishParsed(event: NewEvent): Promise<Published> {
    const calledAt = performance.now()
    const answer = await this.#group.add(this.#routed(event))
    this.#options.took(performance.now() - calledAt)
    return this.#taken(answer)
  }

  /** All or nothing, in the order given; throws when a key was used for another event. */
  publishAllParsed(events: readonly NewEvent[]): Promise<readonly Published[]> {
    return this.#track(this.#publishAll(events.map((event) => this.#routed(event))))
  }

  /** All or nothing, in the order given. */
  async publishMany(inputs: readonly EventInput[], options: PublishOptions = {}): Promise<PublishedEvent[]> {
    const events = await this.#parseAll(inputs)
    if (events.length === 0) return []
    if (options.tx !== undefined) return this.#publishIn(options.tx, events, options)
    const published = await this.#track(this.#publishAll(events))
    return published.map((one, position) => this.#answer(events[position] as NewEvent, one))
  }

  /** Resolves when everything given so far is answered and told. */
  async settled(): Promise<void> {
    await this.#group.settled()
    await Promise.allSettled(this.#underWay)
    await this.#notifying
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    const calledAt = performance.now()
    this.#underWay.add(work)
    try {
      const done = await work
      this.#options.took(performance.now() - calledAt)
      return done
    } finally {
      this.#underWay.delete(work)
    }
  }

  async #parseAll(inputs: readonly EventInput[]): Promise<NewEvent[]> {
    const { catalogue } = this.#options
    if (catalogue === undefined) return inputs.map((input) => this.#parse(input))
    const events: NewEvent[] = []
    for (const input of inputs) events.push(this.#parse(await validate(catalogue, input)))
    return events
  }

  #parse(input: EventInput): NewEvent {
    return this.#routed(parseEvent(input))
  }

  #routed(event: NewEvent): NewEvent {
    return this.#options.requireRoute && event.requireRoute === null
      ? { ...event, requireRoute: true }
      : event
  }

  async #publishIn(
    tx: CallerTransaction,
    events: readonly NewEvent[],
    { notify = true }: PublishOptions,
  ): Promise<PublishedEvent[]> {
    const portions = portionsOf(events, callLimits)
    const publishEach = async () => {
      const answers: PublishedEvent[] = []
      for (const portion of portions) {
        const request = { events: portion, wake: notify ? '' : null, refuse: 'together' } as const
        const published = await publishIn(tx, this.#options.db, request)
        for (const [place, one] of published.entries()) {
          answers.push(this.#answer(portion[place] as NewEvent, one))
        }
        this.#tellPressure(published)
      }
      return answers
    }
    return portions.length > 1 ? orNothing(tx, publishEach) : publishEach()
  }

  async #publishAll(events: readonly NewEvent[]): Promise<readonly Published[]> {
    const { db } = this.#options
    const portions = portionsOf(events, callLimits)
    if (portions.length === 1 && !isKeyed(events)) return this.#publishAtOnce(events, 'together')
    const told: (string | null)[] = []
    const all = await db.transaction(async (tx) => {
      const connection = { query: tx.query.bind(tx), run: tx.run.bind(tx), schema: db.schema }
      const published: Published[] = []
      for (const portion of portions) {
        const wake = this.#wake()
        told.push(wake)
        const request = { events: portion, wake, refuse: 'together' } as const
        published.push(...(await publish(connection, request)).published)
      }
      // Thrown inside, so that nothing of the call is stored.
      for (const [position, one] of published.entries()) this.#answer(events[position] as NewEvent, one)
      return published
    })
    if (told.includes(null)) this.#noticeSoon()
    this.#tellPressure(all)
    await this.#options.published({ published: all, runs: [] }, events, performance.now())
    return all
  }

  async #publishAtOnce(
    events: readonly NewEvent[],
    refuse: 'each' | 'together' = 'each',
  ): Promise<readonly Published[]> {
    const { db, idle, published, trouble } = this.#options
    const runner = await idle(events.length)
    const askedAt = performance.now()
    const wake = this.#wake()
    const connection = isKeyed(events) ? impatient(db) : db
    const answer = await publish(connection, { events, wake, refuse, ...(runner && { idle: runner }) })
    if (refuse === 'together') for (const one of answer.published) this.#taken(one)
    this.#tellPressure(answer.published)
    if (wake === null) this.#noticeSoon()
    // They are stored: whatever goes wrong from here on must not have them stored again.
    await published(answer, events, askedAt).catch((error: unknown) =>
      trouble(error, 'handing over what was published'),
    )
    return answer.published
  }

  /** Throws if a queue did not take it. */
  #taken(published: Published): Published {
    const { refused } = published
    if (refused === null) return published
    this.#options.refused(refused)
    if (refused.why === 'full') this.#options.pressed([refused.queue])
    throw refusalError(refused)
  }

  #tellPressure(published: readonly Published[]): void {
    const queues = new Set(published.flatMap(({ pressed }) => pressed))
    if (queues.size > 0) this.#options.pressed([...queues])
  }

  #answer(event: NewEvent, published: Published): PublishedEvent {
    const { id, replayed, conflict, owed, createdAt, pressed } = this.#taken(published)
    if (conflict) throw new PosthornError('IDEMPOTENCY_MISMATCH', { key: event.idempotencyKey, eventId: id })
    return { id, replayed, deliveries: owed.length, createdAt, backpressure: pressed }
  }

  /** Tells others within the commit when that is rare, else a moment later for all: NOTIFY serialises commits. */
  #wake(): string | null {
    const now = performance.now()
    if (now - this.#notifiedAt >= notifyEveryMs) {
      this.#notifiedAt = now
      return this.#options.processId
    }
    return null
  }

  /** Only after the commit: whoever looks before it finds nothing. */
  #noticeSoon(): void {
    this.#notifying ??= this.#notifyLater()
  }

  async #notifyLater(): Promise<void> {
    const { db, channel, processId, trouble } = this.#options
    await delay(notifyEveryMs)
    this.#notifying = undefined
    this.#notifiedAt = performance.now()
    try {
      await db.query('select pg_notify($1, $2)', [channel, processId])
    } catch (error) {
      trouble(error, 'notifying other processes')
    }
  }
}

async function validate(catalogue: Catalogue, input: EventInput): Promise<EventInput> {
  const { type } = input
  if (type == null || type.startsWith('posthorn.')) return input
  const payload = await catalogue.validate(type, input.payload)
  return {
    ...input,
    payload,
    orderingKey: input.orderingKey ?? catalogue.orderingKey(type, payload),
  } as EventInput
}

/** Statements through it give up soon on what is locked. */
function impatient(db: Database): Connection & { readonly schema: string } {
  return {
    schema: db.schema,
    query: db.query.bind(db),
    run: (statement, values) => db.once(statement, values, { lockTimeoutMs }),
  }
}
