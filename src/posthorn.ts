import { randomUUID } from 'node:crypto'
import type { Config } from './config.ts'
import type { Handler } from './consume/attempt.ts'
import type { HandlerOptions } from './consume/registration.ts'
import { Runner } from './consume/runner.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import { checkReady } from './db/migrate.ts'
import type { PostgresDatabase } from './db/postgres.ts'
import { Directory } from './directory.ts'
import type { Catalogue, EventFor, EventPattern } from './domain/catalogue.ts'
import type { LeasedRun } from './domain/delivery.ts'
import type { EventInput, NewEvent } from './domain/event.ts'
import type { Subscription } from './domain/subscription.ts'
import { PosthornError } from './errors.ts'
import { Hub } from './hub.ts'
import { LeaseSource } from './lease-source.ts'
import { Memory } from './memory/memory.ts'
import { Notices } from './notices.ts'
import { Alerts } from './observe/alerts.ts'
import { observeFigures } from './observe/gauges.ts'
import type { Burial } from './observe/hub-events.ts'
import type { Logger } from './observe/log.ts'
import { createMetrics } from './observe/metrics.ts'
import { observePickup } from './observe/pickup.ts'
import { observeRetention } from './observe-retention.ts'
import * as observers from './observers.ts'
import { Admitter } from './operations/admit.ts'
import { LeaseTokens, newToken } from './operations/lease-tokens.ts'
import type { PublishAnswer } from './operations/publish.ts'
import { isRouted } from './operations/routes.ts'
import { readStats } from './operations/stats.ts'
import { rememberWorker } from './operations/workers.ts'
import { graceMsOf, type PosthornParts, type StopOptions } from './parts.ts'
import { Publisher } from './publish/publisher.ts'
import { tellPublished } from './published.ts'
import { Pull } from './pull/pull.ts'
import { RecentSettlements } from './pull/recent-settlements.ts'
import type { PullSettled } from './pull/settler.ts'
import type { Arrival } from './pull/waiting-room.ts'
import { Push } from './push/push.ts'
import { Refresher } from './refresher.ts'
import { Retention } from './retention/retention.ts'
import { Roster } from './roster.ts'
import { atMost, stopEach } from './stop-each.ts'
import { untilBeat } from './upkeep/beat.ts'
import { holdWatchLoop } from './upkeep/hold-watch.ts'
import { Lookout } from './upkeep/lookout.ts'
import type { Loop } from './upkeep/loop.ts'
import { presenceLoop } from './upkeep/presence.ts'
import { UnknownLeases } from './upkeep/unknown-leases.ts'
import { Upkeep } from './upkeep/upkeep.ts'

export type { HandlerOptions, PosthornParts, StopOptions }

/** How long after its grace a stop waits for statements that are held up. */
const partingMs = 2_000
const publishesLeft =
  'The hub stopped while publishes were under way: a transaction that is still open may hold their idempotency keys'

/** A hub with its services: handlers, wake-ups and upkeep. Nothing runs before `start()`. */
export class Posthorn<C extends Catalogue = Catalogue> extends Hub<C> {
  readonly log: Logger
  readonly #config: Config
  readonly #db: PostgresDatabase
  readonly #embedded: EmbeddedServer | undefined
  readonly #publisher: Publisher
  readonly #runner: Runner
  readonly #push: Push
  readonly #upkeep: Upkeep
  readonly #alerts: Alerts
  /** What this process says and asks now and then. */
  readonly #loops: readonly Loop[]
  readonly #unknownLeases: UnknownLeases
  readonly #recent: RecentSettlements
  readonly #roster: Roster
  readonly #notices: Notices
  #state: 'open' | 'started' | 'closed' = 'open'
  #starting: Promise<void> | undefined
  #stopping: Promise<void> | undefined
  readonly #refresher: Refresher

  constructor({ config, log, db, embedded, catalogue, vault, databaseAddresses }: PosthornParts) {
    const metrics = createMetrics()
    const processId = randomUUID()
    const channel = `posthorn.${config.schema}`
    const admitter = new Admitter(db)
    const lookout = new Lookout(db)
    const roster = new Roster(() => ({ db, log, runner: this.#runner, push: this.#push, memory }))
    const trouble = (error: unknown, doing: string) =>
      log.error({ err: error, doing }, 'Trouble while working')
    const own = rememberWorker(db, config.workerId)
    const worker = own.number
    const tokens = new LeaseTokens()
    const lost = (no: number, token: number) => tokens.lost(no, token)
    const tell = observers.guard((answer: PublishAnswer, events: readonly NewEvent[]) => {
      tellPublished(publishHooks, answer, events)
    }, log)
    const buried = observers.guard((burial: Burial) => observers.tellBurial(hooks, burial), log)
    const memory = new Memory({
      ...{ db, worker, newToken, trouble, workerId: config.workerId },
      ...observers.observeMemory(() => hooks),
      leased: (run, leaseMs) => leased(run, leaseMs),
      wake: () => this.#runner.wake(),
      goOn: (run) => this.#runner.goOn(run),
      drop: (run) => this.#runner.drop(run),
      take: (runs, askedAt) => this.#runner.take(runs, askedAt),
      handBack: (no) => this.#runner.handBack(no),
      retire: (no) => roster.loseTo(no),
    })
    const publisher = new Publisher({
      ...{ db, catalogue, requireRoute: config.requireRoute, processId, channel, trouble, memory },
      idle: async (events) => {
        const subscriptions = this.#runner.idle(events)
        if (subscriptions.length === 0) return undefined
        const [no, token] = [await worker(), tokens.draw()]
        return { subscriptions, token, worker: no, arrived: () => tokens.arrived(token) }
      },
      published: async (answer, events, askedAt) => {
        const taken = this.#runner.take(answer.runs, askedAt)
        for (const run of answer.runs) leased(run, subscription(run.subscription).leaseMs)
        tell(answer, events)
        await taken
      },
      refused: ({ why }) => metrics.refused.inc({ reason: why }),
      pressed: observers.guard((queue: string) => void this.events.emit('backpressure', { queue }), log),
      took: (ms) => metrics.publishSeconds.observe(ms / 1000),
    })
    const directory = new Directory(db)
    const leased = (run: LeasedRun, leaseMs: number) => observePickup(metrics, run, leaseMs)
    const settled = (one: PullSettled) => tellSettled(one)
    const recent = new RecentSettlements({
      ...{ db, trouble },
      repeated: (settlements) => {
        log.warn({ settlements }, 'Settlements that a failover had lost were repeated')
        this.wake()
      },
    })
    const pull = new Pull({ db, admitter, lookout, directory, trouble, leased, settled, lost, recent })
    const observe = observers.observePush(() => hooks)
    const push = new Push({ ...config, db, vault, directory, databaseAddresses, observe })
    const retention = new Retention({ db, config, observe: observeRetention(metrics, log) })
    super({
      ...{
        db,
        publisher,
        admitter,
        metrics,
        worker,
        buried,
        directory,
        pull,
        recent,
        memory,
        retention,
        lost,
      },
      endpoints: push.endpoints,
      ready: () => checkReady(db, own.register),
    })
    this.log = log
    this.#push = push
    this.#recent = recent
    this.#refresher = new Refresher({ read: () => roster.refresh(), trouble })
    this.#config = config
    this.#db = db
    this.#embedded = embedded
    this.#publisher = publisher
    this.#roster = roster
    this.#notices = new Notices({
      ...{ db, channel, processId, gap: () => admitter.forget(), work: () => this.wake() },
      subscribers: () => this.#subscribersChanged(),
    })
    const publishHooks = {
      ...{ events: this.events, metrics },
      unrouted: (ids: readonly number[]) => this.#upkeep.unrouted(ids),
      offer: (arrivals: readonly Arrival[]) => pull.published(arrivals),
      isServed: (no: number) => roster.get(no) !== undefined,
      wake: () => this.#runner.wake(),
    }
    const publishIfWanted = async (event: EventInput) => {
      if (await isRouted(db, event.type as string)) await publisher.publish(event)
    }
    this.#alerts = new Alerts({ log, metrics, now: () => performance.now(), publish: publishIfWanted })
    const subscription = (no: number) => roster.get(no) as Subscription
    const hooks = { events: this.events, metrics, alerts: this.#alerts, log, subscription }
    const tellSettled = observers.observePull(hooks)
    const source = new LeaseSource({
      ...{ db, admitter, worker, tokens, subscription, trouble, leased, look: lookout.look },
      admitted: () => this.#runner.wake(),
      refused: () => this.#unknownLeases.soon(),
      prepare: (runs) => push.prepare(runs),
    })
    const { pollMs, idlePollMs, overdueAfterMs } = config
    this.#runner = new Runner({
      source: memory.beside(source),
      pollMs,
      idlePollMs,
      untilBeat,
      observe: observers.observeRunner(hooks),
    })
    push.connect(this.#runner, source)
    db.waited = (ms) => metrics.poolWaitSeconds.observe(ms / 1000)
    observeFigures(metrics, {
      underWay: () => this.#runner.underWay,
      longPolls: () => pull.waiting,
      connections: () => db.connections,
      stats: () => readStats(db, config),
      memory: () => memory.views,
      trouble,
    })
    this.#upkeep = new Upkeep({
      ...{ db, admitter, lookout, overdueAfterMs, isAnyLimited: () => roster.isAnyLimited },
      ...{ prune: () => retention.step(), moveLeft: () => memory.moveLeft() },
      observe: observers.observeUpkeep({ ...hooks, wake: () => this.wake() }),
    })
    const holdWatch = holdWatchLoop({
      ...{ db, trouble, waitingFor: () => this.#runner.waitingFor },
      missed: () => this.#subscribersChanged(),
    })
    const presence = presenceLoop({
      ...{ db, trouble, worker: own },
      handled: () => roster.handled,
      also: async () => {
        this.#refresher.soon()
        await pull.tellWorkers()
        await this.#unknownLeases.look()
      },
    })
    this.#loops = [presence, holdWatch]
    this.#unknownLeases = new UnknownLeases({
      ...{ db, tokens, worker: own, known: () => this.#runner.knownLeases() },
      ...observers.observeUnknownLeases(log, () => this.wake()),
    })
    db.reconnected = () => this.#reconnected()
  }

  /** Where the data lives and how durable it is, in one line. */
  describe(): string {
    if (this.#embedded !== undefined) return this.#embedded.describe()
    const { serverVersion, durability } = this.#db
    return `PostgreSQL ${serverVersion}, schema ${this.#config.schema} (durability: ${durability})`
  }

  /**
   * Wants events of a type, or of every type a pattern like `order.*` matches. The subscription is durable:
   * it exists from `start()` until `unsubscribe(name)`, and is owed events whether or not this process runs.
   */
  on<const Pattern extends EventPattern<C>>(
    pattern: Pattern | readonly Pattern[],
    options: HandlerOptions,
    handler: Handler<EventFor<C, Pattern>>,
  ): this {
    if (this.#state !== 'open') {
      const expected = 'registered before start()'
      throw new PosthornError('BAD_OPTION', { option: 'name', expected, value: options.name })
    }
    this.#roster.register(pattern as string | readonly string[], options, handler as Handler)
    return this
  }

  /** Makes the subscriptions what `on` said, and begins to work. Starting twice is starting once. */
  start(): Promise<void> {
    if (this.#state === 'closed') return Promise.reject(new PosthornError('STOPPED'))
    this.#state = 'started'
    this.#starting ??= this.#start().catch((error: unknown) => {
      this.#starting = undefined
      throw error
    })
    return this.#starting
  }

  async #start(): Promise<void> {
    await this.#roster.subscribe()
    await this.#notices.start()
    await this.#push.start()
    // After listening: what changes from now on is heard.
    await this.#roster.refresh()
    await this.memory.start(this.#roster.subscriptions)
    // Somebody may have called stop() meanwhile.
    if (this.#state === 'closed') return
    await this.#roster.recordRecoveries(this.#config.workerId)
    if (!this.#roster.isEmpty) this.#runner.start()
    if (this.#config.upkeep) this.#upkeep.start()
    for (const loop of this.#loops) loop.start()
    this.pull.start()
  }

  /** Looks for work now, instead of at the next poll. */
  wake(): void {
    this.#runner.wake()
    this.pull.look()
  }

  /** One step of upkeep, for processes that run it by themselves; true while there is more. */
  async sweep(): Promise<boolean> {
    await Promise.all([this.#push.probe(), this.memory.sync()])
    return this.#upkeep.sweep()
  }

  /** Ends what is under way, hands back the rest uncounted, and closes the database. Twice is safe. */
  async stop(options: StopOptions = {}): Promise<void> {
    const graceMs = graceMsOf(options)
    this.#state = 'closed'
    this.#stopping ??= this.#stop(graceMs)
    return this.#stopping
  }

  async #stop(graceMs: number): Promise<void> {
    const graceEndsAt = performance.now() + graceMs
    const leftMs = () => Math.max(graceEndsAt + partingMs - performance.now(), partingMs / 4)
    await this.#starting?.catch(() => undefined)
    const parts = [
      () => this.pull.stop(),
      () => this.#runner.stop(graceMs),
      () => this.stopPolling(),
      () => this.#unknownLeases.stop(),
      () => this.#recent.stop(),
      () => this.#refresher.stop(),
      () => this.#push.stop(),
      () => Promise.all([this.#upkeep, ...this.#loops].map((loop) => loop.stop())),
      () => this.#notices.stop(),
      () => (this.#starting === undefined ? undefined : this.#roster.recordCheckpoints()),
      () => atMost(leftMs(), this.#publisher.settled(), () => this.log.warn({}, publishesLeft)),
      () => this.memory.stop(graceEndsAt),
      () => this.#upkeep.settled(),
      () => this.#alerts.settled(),
      () => this.#db.close({ withinMs: leftMs() }),
      () => this.#embedded?.stop(),
    ]
    await stopEach(parts, this.log)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** The server that answers now may be another one, which lacks what this process remembers of the last. */
  #reconnected(): void {
    if (this.#state !== 'started') return
    this.pull.forgetWorkers()
    this.#recent.reconnected()
    this.#unknownLeases.soon()
    this.#subscribersChanged()
    this.wake()
  }

  #subscribersChanged(): void {
    this.directory.forget()
    this.pull.look()
    this.#refresher.soon()
  }
}
