import type { Handler } from './consume/attempt.ts'
import type { HandlerOptions } from './consume/registration.ts'
import { badOption } from './domain/bad-value.ts'
import type { Catalogue, EventFor, EventPattern, EventToPublish } from './domain/catalogue.ts'
import type { EventInput } from './domain/event.ts'
import { checkOptions } from './domain/known-names.ts'
import { integer } from './domain/subscription.ts'
import type { PublishedEvent, PublishOptions } from './engine/publish-contract.ts'
import { PosthornError } from './errors.ts'
import type { Hub } from './hub.ts'
import type { Logger } from './observe/log.ts'
import { createServices, type PosthornParts, type Services } from './services.ts'

export type { HandlerOptions }

export interface StopOptions {
  /**
   * How long handlers may take to end before they are aborted and handed back. Default 30,000. What is held up by a
   * transaction that the application has not ended is cut about 2 s after that.
   */
  readonly graceMs?: number
}

/** A hub with its services: handlers, wake-ups and upkeep. Nothing runs before `start()`. */
export interface Posthorn<C extends Catalogue = Catalogue> extends Hub, AsyncDisposable {
  readonly log: Logger
  /** Where the data lives and how durable it is, in one line. */
  describe(): string
  /** Stores the event and what is owed of it; resolves once that is durable (or, with `tx`, part of it). */
  publish(event: EventToPublish<C>, options?: PublishOptions): Promise<PublishedEvent>
  /** Many events in one statement: all or none, in the order given. */
  publishMany(events: readonly EventToPublish<C>[], options?: PublishOptions): Promise<PublishedEvent[]>
  /**
   * Wants events of a type, or of every type that a pattern like `order.*` matches. The subscription is durable: it exists
   * from `start()` until `unsubscribe(name)`, and is owed events whether or not this process runs.
   */
  on<const Pattern extends EventPattern<C>>(
    pattern: Pattern | readonly Pattern[],
    options: HandlerOptions,
    handler: Handler<EventFor<C, Pattern>>,
  ): this
  /** Makes the subscriptions what `on` said, and begins to work. A second call does nothing. */
  start(): Promise<void>
  /** Looks for work now, instead of at the next poll. */
  wake(): void
  /** One step of upkeep, for processes that run it by themselves; true while there is more. */
  sweep(): Promise<boolean>
  /** Ends what is under way, hands back the rest uncounted, and closes the database. A second call does nothing. */
  stop(options?: StopOptions): Promise<void>
}

export function createHub<C extends Catalogue>(parts: PosthornParts): Posthorn<C> {
  const services = createServices(parts)
  const { api, handlers, publisher } = services
  const life = createLife(services)
  const hub: Posthorn<C> = {
    ...api,
    log: parts.log,
    describe: () => describe(parts),
    publish: (event, options) => publisher.publish(event as EventInput, options),
    publishMany: (events, options) => publisher.publishMany(events as readonly EventInput[], options),
    on: (pattern, options, handler) => {
      life.checkOpen(options.name)
      handlers.register(pattern as string | readonly string[], options, handler as Handler)
      return hub
    },
    start: life.start,
    wake: () => services.wake(),
    sweep: () => services.sweep(),
    stop: async (options = {}) => life.stop(graceMsOf(options)),
    [Symbol.asyncDispose]: () => hub.stop(),
  }
  return hub
}

/** A hub is opened, started once and stopped once. */
function createLife(services: Services) {
  let state: 'open' | 'started' | 'closed' = 'open'
  let starting: Promise<void> | undefined
  let stopping: Promise<void> | undefined

  async function stopAll(graceMs: number): Promise<void> {
    const graceEndsAt = performance.now() + graceMs
    await starting?.catch(() => undefined)
    await services.stop({ graceMs, graceEndsAt, wasStarted: starting !== undefined })
  }

  return {
    checkOpen(name: unknown): void {
      if (state !== 'open') throw badOption('name', 'registered before start()', name)
    },
    async start(): Promise<void> {
      if (state === 'closed') throw new PosthornError('STOPPED')
      state = 'started'
      starting ??= services.start({ isStopped: () => state === 'closed' }).catch((error: unknown) => {
        starting = undefined
        throw error
      })
      return starting
    },
    stop(graceMs: number): Promise<void> {
      state = 'closed'
      stopping ??= stopAll(graceMs)
      return stopping
    },
  }
}

function describe({ embedded, db, config }: PosthornParts): string {
  if (embedded !== undefined) return embedded.describe()
  return `PostgreSQL ${db.serverVersion}, schema ${config.schema} (durability: ${db.durability})`
}

function graceMsOf(options: StopOptions): number {
  checkOptions(options, { graceMs: true }, 'stop')
  return integer('graceMs', options.graceMs ?? 30_000, 0, 86_400_000)
}
