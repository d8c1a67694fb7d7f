import type { Config } from './config.ts'
import { Runner } from './consume/runner.ts'
import { untilBeat } from './core/beat.ts'
import { createCore } from './core/core.ts'
import { createNotices } from './core/notices.ts'
import { atMost, stopEach } from './core/stop-each.ts'
import type { EmbeddedServer } from './db/embedded.ts'
import type { PostgresDatabase } from './db/postgres.ts'
import type { Catalogue } from './domain/catalogue.ts'
import { Admitter } from './engine/admit.ts'
import { LeaseTokens } from './engine/lease-tokens.ts'
import { publishAlerts } from './engine/publish-alerts.ts'
import { Publisher } from './engine/publisher.ts'
import { SharedPeek } from './engine/shared-peek.ts'
import { createHandOver } from './handlers/hand-over.ts'
import { LeaseSource } from './handlers/lease-source.ts'
import { listenForRunner } from './handlers/runner-signals.ts'
import { ServedSubscriptions } from './handlers/served-subscriptions.ts'
import { composeHub } from './hub.ts'
import { Memory } from './memory/memory.ts'
import type { Logger } from './observe/log.ts'
import { createObservation } from './observe/observers.ts'
import { Polling } from './pull/polling.ts'
import { Pull } from './pull/pull.ts'
import { RecentSettlements } from './pull/recent-settlements.ts'
import { HoldWatch } from './queues/hold-watch.ts'
import { createRetention } from './retention/retention.ts'
import { Served } from './subscriptions/served.ts'
import { SubscriptionCache } from './subscriptions/subscription-cache.ts'
import { Upkeep } from './upkeep/upkeep.ts'
import { Push } from './webhooks/send/push.ts'
import type { Vault } from './webhooks/send/vault.ts'
import { WebhookNotes } from './webhooks/send/webhook-notes.ts'
import { createPresence } from './workers/presence.ts'
import { UnknownLeases } from './workers/unknown-leases.ts'
import { rememberWorker } from './workers/workers.ts'

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
export function createServices(parts: PosthornParts) {
  const { config, log, db, embedded, catalogue } = parts
  const { workerId, schema } = config
  const core = createCore({ db, log, schema, workerId, identity: rememberWorker(db, workerId) })
  const { signals } = core

  // What everybody observes and leases by.
  const served = new Served()
  const observe = createObservation(core, served)
  const { buried, leased, alerts } = observe
  const subscriptions = new SubscriptionCache(db, signals)
  const admitter = new Admitter(db)
  const tokens = new LeaseTokens()
  const memory = new Memory(core, observe.memory)
  const sharedPeek = new SharedPeek(db, () => memory.tokens)
  signals.on('noticesMissed', () => admitter.forget())

  // Handlers and webhooks: one runner.
  const notes = new WebhookNotes(db, served)
  const source = new LeaseSource(core, { admitter, tokens, served, sharedPeek, notes })
  const runner = new Runner({ ...config, source, untilBeat, observe: observe.runner })
  const push = new Push({ ...config, ...parts, subscriptions, runner, source, notes, observe: observe.push })
  const handlers = new ServedSubscriptions(core, { served, source, runner, push, memory })
  listenForRunner(core, { runner, served })

  // Publishing.
  const handOver = createHandOver(core, { runner, tokens, served })
  const publisher = new Publisher({ ...config, ...core, catalogue, memory, handOver })
  publishAlerts(core, publisher)

  // Workers elsewhere.
  const recent = new RecentSettlements(core)
  const pullNeeds = { ...core, admitter, subscriptions, tokens, recent }
  const pull = new Pull({ ...pullNeeds, sharedPeek, leased, settled: observe.pullSettled })
  const polling = new Polling({ ...pullNeeds, buried })

  // What must happen whether or not anybody works.
  const retention = createRetention({ db, config, observe: observe.retention })
  const needs = { admitter, sharedPeek, handlers, retention, memory, observe: observe.upkeep }
  const upkeep = new Upkeep({ ...config, ...core, ...needs })
  const unknownLeases = new UnknownLeases({ ...core, tokens, runner })
  const holdWatch = new HoldWatch({ ...core, runner })
  const presence = createPresence(core, { handlers, pull, unknownLeases })
  const notices = createNotices(core)

  const features = { admitter, subscriptions, memory, runner, push, publisher, pull, polling, retention }
  const api = composeHub(core, { ...features, config, buried })
  let isRunning = false
  db.reconnected = () => isRunning && signals.emit('reconnected')

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
      await handlers.recordRecoveries()
      if (!handlers.isEmpty) runner.start()
      if (config.upkeep) upkeep.start()
      presence.start()
      holdWatch.start()
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
          () => handlers.stop(),
          () => push.stop(),
          () => Promise.all([upkeep, presence, holdWatch].map((loop) => loop.stop())),
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

/** How long after its grace a stop waits for statements that are held up. */
const partingMs = 2_000
const publishesLeft =
  'The hub stopped while publishes were under way: a transaction that is still open may hold their idempotency keys'
