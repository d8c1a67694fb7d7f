import { randomUUID } from 'node:crypto'
import type { Config } from './config.ts'
import { Runner } from './consume/runner.ts'
import { untilBeat } from './core/beat.ts'
import { createCore } from './core/core.ts'
import { Notices } from './core/notices.ts'
import { Readiness } from './core/readiness.ts'
import { Refresher } from './core/refresher.ts'
import { atMost, stopEach } from './core/stop-each.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import { checkReady } from './db/migrate.ts'
import type { PostgresDatabase } from './db/postgres.ts'
import { createDeliveriesApi } from './deliveries/deliveries-api.ts'
import type { Catalogue } from './domain/catalogue.ts'
import type { LeasedRun } from './domain/delivery.ts'
import { Admitter } from './engine/admit.ts'
import { LeaseTokens, newToken } from './engine/lease-tokens.ts'
import { Publisher } from './engine/publisher.ts'
import { isRouted } from './engine/routes.ts'
import { SharedPeek } from './engine/shared-peek.ts'
import { createEventsApi } from './events/events-api.ts'
import { createHandOver } from './handlers/hand-over.ts'
import { LeaseSource } from './handlers/lease-source.ts'
import { listenForRunner } from './handlers/runner-signals.ts'
import { ServedSubscriptions } from './handlers/served-subscriptions.ts'
import type { Hub } from './hub.ts'
import { recordAction } from './keys/admin-log.ts'
import { Memory } from './memory/memory.ts'
import { Alerts } from './observe/alerts.ts'
import { observeFigures } from './observe/gauges.ts'
import type { Burial } from './observe/hub-events.ts'
import type { Logger } from './observe/log.ts'
import * as observers from './observe/observers.ts'
import { observePickup } from './observe/pickup.ts'
import { readStats } from './observe/stats.ts'
import { observePublished } from './observe/tell-published.ts'
import { Polling } from './pull/polling.ts'
import { Pull } from './pull/pull.ts'
import { RecentSettlements } from './pull/recent-settlements.ts'
import { HoldWatch } from './queues/hold-watch.ts'
import { Queues } from './queues/queues.ts'
import { observeRetention } from './retention/observe-retention.ts'
import { createRetention } from './retention/retention.ts'
import { Served } from './subscriptions/served.ts'
import { SubscriptionCache } from './subscriptions/subscription-cache.ts'
import { createSubscriptionsApi } from './subscriptions/subscriptions-api.ts'
import { Upkeep } from './upkeep/upkeep.ts'
import { Push } from './webhooks/send/push.ts'
import type { Vault } from './webhooks/send/vault.ts'
import { WebhookNotes } from './webhooks/send/webhook-notes.ts'
import { presenceLoop } from './workers/presence.ts'
import { UnknownLeases } from './workers/unknown-leases.ts'
import { rememberWorker } from './workers/workers.ts'
import { createWorkersApi } from './workers/workers-api.ts'

/** How long after its grace a stop waits for statements that are held up. */
const partingMs = 2_000
const publishesLeft =
  'The hub stopped while publishes were under way: a transaction that is still open may hold their idempotency keys'

export interface PosthornParts {
  readonly config: Config
  readonly log: Logger
  readonly db: PostgresDatabase
  readonly embedded: EmbeddedServer | undefined
  readonly catalogue: Catalogue | undefined
  readonly vault: Vault
  readonly databaseAddresses: readonly string[]
}

export type Services = ReturnType<typeof createServices>

export interface Stopping {
  readonly graceMs: number
  /** Monotonic. */
  readonly graceEndsAt: number
  readonly wasStarted: boolean
}

/**
 * All services of a process, in the order in which they need each other. A service that must tell an earlier one something
 * does so by a signal. The one direct call is the hand-over of published deliveries to a waiting runner.
 */
export function createServices({
  config,
  log,
  db,
  embedded,
  catalogue,
  vault,
  databaseAddresses,
}: PosthornParts) {
  const core = createCore({ db, log })
  const { metrics, signals, trouble } = core
  const processId = randomUUID()
  const channel = `posthorn.${config.schema}`
  const identity = rememberWorker(db, config.workerId)
  const worker = identity.number

  // What is observed: log lines, metrics, alerts and the events of the hub.
  const served = new Served()
  const alerts = new Alerts({
    log,
    metrics,
    now: () => performance.now(),
    publish: (event) => signals.emitAndWait('alertRaised', event),
  })
  const hooks = { ...core, alerts, subscription: (no: number) => served.get(no) }
  const buried = observers.guard((burial: Burial) => observers.tellBurial(hooks, burial), log)
  const leased = (run: LeasedRun, leaseMs: number) => observePickup(metrics, run, leaseMs)
  observePublished(core)

  // What everybody leases by.
  const subscriptions = new SubscriptionCache(db, signals)
  const admitter = new Admitter(db)
  const tokens = new LeaseTokens()
  const memory = new Memory({
    db,
    worker,
    newToken,
    trouble,
    signals,
    leased,
    workerId: config.workerId,
    ...observers.observeMemory(hooks),
  })
  const sharedPeek = new SharedPeek(db, () => memory.tokens)
  const lost = (workerNumber: number, token: number) => tokens.lost(workerNumber, token)

  // Handlers and webhooks: one runner over the database, and over memory where this process has queues there.
  const notes = new WebhookNotes(db, served)
  const source = new LeaseSource({
    db,
    admitter,
    worker,
    tokens,
    served,
    signals,
    trouble,
    leased,
    look: sharedPeek.look,
    prepare: (runs) => notes.read(runs),
  })
  const runner = new Runner({
    source,
    pollMs: config.pollMs,
    idlePollMs: config.idlePollMs,
    untilBeat,
    observe: observers.observeRunner(hooks),
  })
  const push = new Push({
    ...config,
    db,
    vault,
    subscriptions,
    databaseAddresses,
    runner,
    source,
    notes,
    observe: observers.observePush(hooks),
  })
  const handlers = new ServedSubscriptions({ core, served, source, runner, push, memory })
  listenForRunner({ signals, runner, served })

  // Publishing.
  const handOver = createHandOver({ runner, tokens, worker, served, metrics })
  const { requireRoute } = config
  const publisher = new Publisher({ ...core, catalogue, requireRoute, processId, channel, memory, handOver })
  signals.on('alertRaised', async (event) => {
    if (await isRouted(db, event.type as string)) await publisher.publish(event)
  })

  // Workers elsewhere.
  const recent = new RecentSettlements({
    db,
    trouble,
    signals,
    repeated: (settlements) => {
      log.warn({ settlements }, 'Settlements that a failover had lost were repeated')
      signals.emit('wake')
    },
  })
  const settled = observers.observePull(hooks)
  const pull = new Pull({
    db,
    admitter,
    sharedPeek,
    subscriptions,
    signals,
    trouble,
    leased,
    settled,
    lost,
    recent,
  })
  const polling = new Polling({ db, admitter, subscriptions, worker, buried, metrics, recent, lost })

  // What must happen whether or not anybody works.
  const retention = createRetention({ db, config, observe: observeRetention(metrics, log) })
  const upkeep = new Upkeep({
    db,
    admitter,
    sharedPeek,
    signals,
    overdueAfterMs: config.overdueAfterMs,
    isAnyLimited: () => handlers.isAnyLimited,
    prune: () => retention.step(),
    moveLeft: () => memory.moveLeft(),
    observe: observers.observeUpkeep(hooks),
  })
  const unknownLeases = new UnknownLeases({
    db,
    tokens,
    worker: identity,
    signals,
    trouble,
    known: () => runner.knownLeases(),
    handedBack: (runs) => {
      log.warn({ runs }, 'Leases whose answer was lost were handed back')
      signals.emit('wake')
    },
  })
  const refresher = new Refresher({ read: () => handlers.refresh(), trouble })
  signals.on('subscriptionsChanged', () => refresher.soon())
  signals.on('reconnected', () => refresher.soon())
  const holdWatch = new HoldWatch({
    db,
    trouble,
    worker,
    waitingFor: () => runner.waitingFor,
    missed: () => signals.emit('subscriptionsChanged'),
    cancelled: ({ subscription, eventIds }) => runner.cancel(subscription, eventIds),
  })
  const notices = new Notices({
    db,
    channel,
    processId,
    gap: () => admitter.forget(),
    work: () => signals.emit('wake'),
    subscribers: () => signals.emit('subscriptionsChanged'),
    cancelled: () => holdWatch.soon(),
  })
  const presence = presenceLoop({
    db,
    trouble,
    worker: identity,
    handled: () => handlers.handled,
    also: async () => {
      refresher.soon()
      await pull.tellWorkers()
      await unknownLeases.look()
    },
  })
  const loops = [presence, holdWatch]

  db.waited = (ms) => metrics.poolWaitSeconds.observe(ms / 1000)
  let isRunning = false
  db.reconnected = () => isRunning && signals.emit('reconnected')
  observeFigures(metrics, {
    underWay: () => runner.underWay,
    longPolls: () => pull.waiting,
    connections: () => db.connections,
    stats: () => readStats(db, config),
    memory: () => memory.views,
    trouble,
  })

  const readiness = new Readiness(() => checkReady(db, identity.register))
  const api: Hub = {
    ...createEventsApi(core, admitter),
    ...createDeliveriesApi(core, { admitter, subscriptions, buried }),
    ...createSubscriptionsApi(core, subscriptions),
    ...createWorkersApi(core),
    poll: (options) => polling.poll(options),
    finalize: (eventId, errors, options) => polling.finalize(eventId, errors, options),
    queues: new Queues({ db, subscriptions, memory }),
    events: core.events,
    metrics,
    retention,
    prune: retention.prune,
    purge: retention.purge,
    storage: retention.storage,
    pull,
    publisher,
    memory,
    subscribers: subscriptions,
    endpoints: push.endpoints,
    scrape: () => metrics.registry.metrics(),
    record: (action) => recordAction(db, action),
    unready: () => readiness.trouble(),
  }

  return {
    api,
    handlers,
    publisher,
    wake: () => signals.emit('wake'),

    async sweep(): Promise<boolean> {
      await Promise.all([push.probe(), memory.sync()])
      return upkeep.sweep()
    },

    async start({ isStopped }: { readonly isStopped: () => boolean }): Promise<void> {
      isRunning = true
      await handlers.subscribe()
      await notices.start()
      await push.start()
      // After listening: what changes from now on is heard.
      await handlers.refresh()
      await handlers.openMemoryQueues()
      if (isStopped()) return
      await handlers.recordRecoveries(config.workerId)
      if (!handlers.isEmpty) runner.start()
      if (config.upkeep) upkeep.start()
      for (const loop of loops) loop.start()
      pull.start()
    },

    async stop({ graceMs, graceEndsAt, wasStarted }: Stopping): Promise<void> {
      isRunning = false
      const leftMs = () => Math.max(graceEndsAt + partingMs - performance.now(), partingMs / 4)
      await stopEach(
        [
          () => pull.stop(),
          () => runner.stop(graceMs),
          () => polling.stop(),
          () => unknownLeases.stop(),
          () => recent.stop(),
          () => refresher.stop(),
          () => push.stop(),
          () => Promise.all([upkeep, ...loops].map((loop) => loop.stop())),
          () => notices.stop(),
          () => (wasStarted ? handlers.recordCheckpoints() : undefined),
          () => atMost(leftMs(), publisher.settled(), () => log.warn({}, publishesLeft)),
          () => memory.stop(graceEndsAt),
          () => upkeep.settled(),
          () => alerts.settled(),
          () => db.close({ withinMs: leftMs() }),
          () => embedded?.stop(),
        ],
        log,
      )
    },
  }
}
