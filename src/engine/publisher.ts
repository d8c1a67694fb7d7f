import type { Core } from '../core/core.ts'
import { portionsOf } from '../core/portions.ts'
import type { CallerTransaction } from '../domain/caller-transaction.ts'
import type { Catalogue } from '../domain/catalogue.ts'
import { type EventInput, type NewEvent, parseEvent } from '../domain/event.ts'
import { checkEventList, readEach } from '../domain/event-inputs.ts'
import { PosthornError } from '../errors.ts'
import { GroupCommit, impatient, isKeyed, statementLimits } from './group-commit.ts'
import { Notifier } from './notifier.ts'
import { type IdleRunner, type PublishAnswer, type Published, publish, publishIn } from './publish.ts'
import {
  checkPublishOptions,
  type Durability,
  type HandOver,
  type PublishedEvent,
  type PublisherMemory,
  type PublishOptions,
} from './publish-contract.ts'
import { refusalError } from './refusal.ts'
import { orNothing } from './savepoint.ts'
import { validate } from './validate.ts'

export interface PublisherOptions extends Pick<Core, 'db' | 'metrics' | 'events' | 'signals' | 'trouble'> {
  readonly catalogue: Catalogue | undefined
  readonly requireRoute: boolean
  /** Names this process in notifications, so that it does not wake itself. */
  readonly processId: string
  readonly channel: string
  readonly memory: PublisherMemory
  readonly handOver: HandOver
}

const callLimits = statementLimits(5_000)

/** Publishes events. Calls that arrive together share one statement and one commit. */
export class Publisher {
  readonly #options: PublisherOptions
  readonly #group: GroupCommit
  /** For calls of a process with memory queues, to which these do not refuse events. */
  readonly #groupHere: GroupCommit
  /** Calls with several events, and calls to memory queues. */
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #notifier: Notifier

  constructor(options: PublisherOptions) {
    this.#options = options
    this.#notifier = new Notifier(options)
    this.#group = new GroupCommit((events) => this.#publishAtOnce(events))
    this.#groupHere = new GroupCommit((events) => this.#publishAtOnce(events, { from: 'here' }))
  }

  async publish(input: EventInput, options: PublishOptions = {}): Promise<PublishedEvent> {
    checkPublishOptions(options)
    const event = await this.#read(input)
    if (options.tx !== undefined)
      return this.#publishIn(options.tx, [event], options).then(([one]) => one as PublishedEvent)
    const { published, durability } = await this.publishParsed(event, 'here')
    return this.#answer(event, published, durability)
  }

  /** Publishes a parsed event. If its idempotency key was used for another event, `conflict` says so. */
  async publishParsed(parsed: NewEvent, from: Origin): Promise<StoredEvent> {
    const event = this.#routed(parsed)
    const inMemory = this.#usesMemory(from) ? await this.#track(this.#remember([event])) : undefined
    if (inMemory !== undefined) return { published: inMemory[0] as Published, durability: 'process' }
    const group = this.#usesMemory(from) ? this.#groupHere : this.#group
    return { published: await this.#publishOne(event, group), durability: 'durable' }
  }

  async #publishOne(event: NewEvent, group: GroupCommit): Promise<Published> {
    const calledAt = performance.now()
    const answer = await group.add(event)
    this.#took(performance.now() - calledAt)
    return this.#taken(answer)
  }

  /** Gives leased runs to the waiting runner, and signals to the rest of this process what was stored. */
  async #stored(answer: PublishAnswer, events: readonly NewEvent[], askedAt: number): Promise<void> {
    const { handOver, signals } = this.#options
    const taken = handOver.take(answer.runs, askedAt)
    const handedTo = new Set(answer.runs.map((run) => run.subscription))
    signals.emit('published', { answers: answer.published, events, handedTo })
    await taken
  }

  /** Measures a call, from its beginning until its events are committed and signalled. */
  #took(ms: number): void {
    this.#options.metrics.publishSeconds.observe(ms / 1000)
  }

  /** A queue that events were just published to is past its high watermark. */
  #pressed(queue: string): void {
    try {
      this.#options.events.emit('backpressure', { queue })
    } catch (error) {
      this.#options.trouble(error, 'calling a listener for backpressure')
    }
  }

  /** Memory queues take what this process publishes itself, if it has any. */
  #usesMemory(from: Origin): boolean {
    return from === 'here' && this.#options.memory.here.length > 0
  }

  /** Undefined: the events must be stored in the database. */
  async #remember(events: readonly NewEvent[]): Promise<readonly Published[] | undefined> {
    const calledAt = performance.now()
    const answers = await this.#options.memory.intake.take(events)
    if (answers === undefined) return undefined
    this.#signalPressure(answers)
    await this.#stored({ published: answers, runs: [] }, events, calledAt)
    return answers
  }

  async #rememberOrStore(events: readonly NewEvent[], from: Origin): Promise<StoredEvents> {
    const inMemory = this.#usesMemory(from) ? await this.#remember(events) : undefined
    if (inMemory !== undefined) return { published: inMemory, durability: 'process' }
    return { published: await this.#publishAll(events, from), durability: 'durable' }
  }

  /** Publishes all parsed events or none, in their order. Throws if an idempotency key was used for another event. */
  publishAllParsed(parsed: readonly NewEvent[], from: Origin): Promise<StoredEvents> {
    const events = parsed.map((event) => this.#routed(event))
    return this.#track(this.#rememberOrStore(events, from))
  }

  /** Stores all events or none, in their order. */
  async publishMany(inputs: readonly EventInput[], options: PublishOptions = {}): Promise<PublishedEvent[]> {
    checkPublishOptions(options)
    checkEventList(inputs)
    const events = await readEach(inputs, (input) => this.#read(input))
    if (events.length === 0) return []
    if (options.tx !== undefined) return this.#publishIn(options.tx, events, options)
    const { published, durability } = await this.publishAllParsed(events, 'here')
    return published.map((one, position) => this.#answer(events[position] as NewEvent, one, durability))
  }

  /** Resolves when all calls so far are answered and their notifications sent. */
  async settled(): Promise<void> {
    await Promise.all([this.#group.settled(), this.#groupHere.settled()])
    await Promise.allSettled(this.#underWay)
    await this.#notifier.settled()
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    const calledAt = performance.now()
    this.#underWay.add(work)
    try {
      const done = await work
      // Undefined: memory has left the events to the database, which measures for itself.
      if (done !== undefined) this.#took(performance.now() - calledAt)
      return done
    } finally {
      this.#underWay.delete(work)
    }
  }

  #read(input: EventInput): NewEvent | Promise<NewEvent> {
    const { catalogue } = this.#options
    if (catalogue === undefined) return this.#parse(input)
    return validate(catalogue, input).then((valid) => this.#parse(valid))
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
          answers.push(this.#answer(portion[place] as NewEvent, this.#takenIn(one)))
        }
        this.#signalPressure(published)
      }
      return answers
    }
    return portions.length > 1 ? orNothing(tx, publishEach) : publishEach()
  }

  async #publishAll(events: readonly NewEvent[], from: Origin): Promise<readonly Published[]> {
    const { db, memory } = this.#options
    const portions = portionsOf(events, callLimits)
    if (portions.length === 1 && !isKeyed(events))
      return this.#publishAtOnce(events, { from, refuse: 'together' })
    const memoryHere = this.#memoryHere(from)
    const wakes: (string | null)[] = []
    const all = await db.transaction(async (tx) => {
      const connection = { query: tx.query.bind(tx), run: tx.run.bind(tx), schema: db.schema }
      const published: Published[] = []
      for (const portion of portions) {
        const wake = this.#notifier.wake()
        wakes.push(wake)
        const request = { events: portion, wake, refuse: 'together', ...memoryHere } as const
        published.push(...(await publish(connection, request)).published)
      }
      // Throws inside of the transaction, so that nothing of the call is stored.
      for (const [position, one] of published.entries()) this.#answer(events[position] as NewEvent, one)
      return published
    })
    if (wakes.includes(null)) this.#notifier.notifySoon()
    if (from === 'here') memory.intake.stored(events, all)
    this.#signalPressure(all)
    await this.#stored({ published: all, runs: [] }, events, performance.now())
    return all
  }

  async #publishAtOnce(
    events: readonly NewEvent[],
    { from = 'elsewhere', refuse = 'each' }: { from?: Origin; refuse?: 'each' | 'together' } = {},
  ): Promise<readonly Published[]> {
    const runner = await this.#options.handOver.idle(events.length)
    try {
      return await this.#store(events, { from, refuse, ...(runner && { runner }) })
    } finally {
      runner?.arrived()
    }
  }

  async #store(
    events: readonly NewEvent[],
    { from, refuse, runner }: { from: Origin; refuse: 'each' | 'together'; runner?: IdleRunner },
  ): Promise<readonly Published[]> {
    const { db, trouble, memory } = this.#options
    const askedAt = performance.now()
    const wake = this.#notifier.wake()
    const connection = isKeyed(events) ? impatient(db) : db
    const request = { events, wake, refuse, ...this.#memoryHere(from) }
    const answer = await publish(connection, { ...request, ...(runner && { idle: runner }) })
    if (refuse === 'together') for (const one of answer.published) this.#taken(one)
    if (from === 'here') memory.intake.stored(events, answer.published)
    this.#signalPressure(answer.published)
    if (wake === null) this.#notifier.notifySoon()
    // The events are stored: an error from here on must not make the caller store them again.
    await this.#stored(answer, events, askedAt).catch((error: unknown) =>
      trouble(error, 'handing over published deliveries'),
    )
    return answer.published
  }

  /** Throws if a queue has refused the event. */
  #taken(published: Published): Published {
    const { refused } = published
    if (refused === null) return published
    this.#options.metrics.refused.inc({ reason: refused.why })
    if (refused.why === 'full') this.#pressed(refused.queue)
    throw refusalError(refused)
  }

  /** The same within a caller's transaction, in which a memory queue cannot take events. */
  #takenIn(published: Published): Published {
    const { refused } = published
    if (refused?.why === 'memory') throw new PosthornError('QUEUE_IN_MEMORY', { queue: refused.queue })
    return this.#taken(published)
  }

  #signalPressure(published: readonly Published[]): void {
    const queues = new Set(published.flatMap(({ pressed }) => pressed))
    for (const queue of queues) this.#pressed(queue)
  }

  #memoryHere(from: Origin): { memoryHere?: readonly number[] } {
    return this.#usesMemory(from) ? { memoryHere: this.#options.memory.here } : {}
  }

  #answer(event: NewEvent, published: Published, durability: Durability = 'durable'): PublishedEvent {
    const { id, replayed, conflict, owed, createdAt, pressed } = this.#taken(published)
    if (conflict) throw new PosthornError('IDEMPOTENCY_MISMATCH', { key: event.idempotencyKey, eventId: id })
    return { id, replayed, deliveries: owed.length, createdAt, backpressure: pressed, durability }
  }
}

/** Who publishes: this process by the library, or another process over HTTP. */
type Origin = 'here' | 'elsewhere'

interface StoredEvent {
  readonly published: Published
  readonly durability: Durability
}

interface StoredEvents {
  readonly published: readonly Published[]
  readonly durability: Durability
}
