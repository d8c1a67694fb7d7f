import type { KeyObject } from 'node:crypto'
import type { RunningAttempt } from '../../consume/attempt.ts'
import { databaseNowMs } from '../../consume/held-run.ts'
import type { Runner } from '../../consume/runner.ts'
import { type MakeAttempt, Share } from '../../consume/share.ts'
import type { Source } from '../../consume/source.ts'
import { Loop } from '../../core/loop.ts'
import type { Database } from '../../db/database.ts'
import type { LeasedRun } from '../../domain/delivery.ts'
import { deliveryId } from '../../domain/id.ts'
import type { Subscription } from '../../domain/subscription.ts'
import { Breaker, returnProbes, type StatusChange, takeProbes } from './breaker.ts'
import { type Endpoint, listEndpoints } from './endpoint-rows.ts'
import { EndpointSecrets } from './endpoint-secrets.ts'
import { type Posted, postWebhook, type Target, targetOf } from './post-webhook.ts'
import type { Sender } from './sender.ts'
import type { Vault } from './vault.ts'
import type { WebhookNotes } from './webhook-notes.ts'
import { agent, type RequestParts } from './webhook-request.ts'

export interface DispatcherOptions {
  readonly db: Database
  readonly vault: Vault
  readonly sender: Sender
  readonly runner: Runner
  readonly source: Pick<Source, 'lease'>
  readonly notes: WebhookNotes
  /** How many deliveries of one subscriber are leased at once. */
  readonly batchSize: number
  readonly observe: DispatcherObserver
}

export interface DispatcherObserver {
  /** The class of the status or of the failure: `2xx`, `refused`. */
  sent(result: string): void
  changed(change: StatusChange): void
  trouble(error: unknown, doing: string): void
}

/** Requests that this process has under way to one endpoint, unless the subscriber sets a limit. */
const concurrencyDefault = 10
/** The sender opens at most this many connections to one endpoint. */
const concurrencyMax = 50
const probesMax = 100

interface Served extends Endpoint, Target {
  readonly keys: readonly KeyObject[]
  /** The subscriber's own headers, opened; undefined: a value does not open. */
  readonly sentHeaders: Readonly<Record<string, string>> | undefined
}

/** Sends webhooks: each subscriber has a share of the runner, whose attempts are requests. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #breaker: Breaker
  readonly #probing: Loop
  readonly #secrets: EndpointSecrets
  readonly #served = new Map<number, Served>()
  readonly #probes = new WeakSet<LeasedRun>()
  #suspended = 0

  constructor(options: DispatcherOptions) {
    this.#options = options
    const { db, vault, observe } = options
    const trouble = (error: unknown, doing: string) => observe.trouble(error, doing)
    this.#breaker = new Breaker({ db, trouble, changed: (change) => observe.changed(change) })
    this.#secrets = new EndpointSecrets(vault, (error) => trouble(error, 'opening a webhook secret'))
    const name = 'probing suspended endpoints'
    this.#probing = new Loop({ name, everyMs: 1_000, trouble, step: () => this.probe().then(() => false) })
  }

  start(): void {
    this.#probing.start()
  }

  /** Call it when no request is under way any more. */
  async stop(): Promise<void> {
    await this.#probing.stop()
    await this.#breaker.flush()
  }

  /** Makes the shares match the subscribers. */
  async refresh(subscriptions: readonly Subscription[]): Promise<void> {
    const webhooks = subscriptions.filter(({ via }) => via === 'webhook')
    const endpoints = webhooks.length === 0 ? [] : await listEndpoints(this.#options.db)
    const byNo = new Map(endpoints.map((endpoint) => [endpoint.subscription, endpoint]))
    for (const subscription of webhooks) {
      const endpoint = byNo.get(subscription.no)
      if (endpoint !== undefined) this.#serve(subscription, endpoint)
    }
    for (const no of [...this.#served.keys()].filter((no) => !byNo.has(no))) {
      this.#served.delete(no)
      this.#options.runner.retire(no)
    }
    this.#suspended = webhooks.filter(({ status }) => status === 'suspended').length
    this.#secrets.keepOnly(endpoints)
  }

  /** Tries suspended endpoints whose probe is due, each with its oldest delivery. */
  async probe(): Promise<void> {
    if (this.#suspended === 0) return
    const { db, source, runner } = this.#options
    const due = (await takeProbes(db, probesMax)).filter((no) => this.#served.has(no))
    if (due.length === 0) return
    const askedAt = performance.now()
    const single = { eventsMax: 1, runsMax: 1, laneMax: 1, suspects: true, probe: true }
    const { runs } = await source.lease(due.map((subscription) => ({ subscription, ...single })))
    for (const run of runs) this.#probes.add(run)
    await runner.probe(runs, askedAt)
    const found = new Set(runs.map(({ subscription }) => subscription))
    const unused = due.filter((no) => !found.has(no))
    await returnProbes(db, unused)
  }

  #serve(subscription: Subscription, endpoint: Endpoint): void {
    const { no, maxConcurrency } = subscription
    const { runner } = this.#options
    const isNew = !this.#served.has(no)
    const keys = this.#secrets.keysOf(endpoint.secrets)
    const sentHeaders = this.#secrets.headersOf(endpoint)
    this.#served.set(no, { ...targetOf(endpoint, subscription), keys, sentHeaders })
    const concurrency = Math.min(maxConcurrency ?? concurrencyDefault, concurrencyMax)
    // If a secret or header does not open here, the deliveries are left to processes that have the key.
    const canSend = keys.length > 0 && sentHeaders !== undefined
    const here: Subscription = canSend ? subscription : { ...subscription, status: 'paused' }
    if (isNew) {
      const attempt: MakeAttempt = (_, attempt) => this.#attempt(attempt)
      runner.add(new Share(here, attempt, concurrency, this.#options.batchSize))
    } else runner.refresh(here, concurrency)
  }

  async #attempt(attempt: RunningAttempt): Promise<void> {
    const { sender, notes } = this.#options
    const { delivery } = attempt
    const { run, event } = delivery
    const served = this.#served.get(run.subscription)
    if (served === undefined) return attempt.conclude({ outcome: 'held' })
    const nowMs = databaseNowMs(attempt.held, performance.now())
    const secrets = this.#secretsOf(served, nowMs)
    const headers = served.sentHeaders
    if (secrets.length === 0 || headers === undefined) {
      const reason = 'A secret or header of the subscriber cannot be opened: see POSTHORN_SECRET_KEY'
      return attempt.conclude({ outcome: { kind: 'failed', reason, uncounted: true } })
    }
    const createdAtMs = event.createdAt.getTime()
    const parts: RequestParts = {
      event,
      secrets,
      headers,
      format: served.format,
      attempt: delivery.attempt,
      timestamp: Math.floor(nowMs / 1000),
      userAgent: agent,
      deliveryId: deliveryId({ createdAtMs, eventId: event.id, subscriptionNo: run.subscription }),
      lane: notes.laneOf(delivery),
      replay: notes.replayOf(delivery),
    }
    const posted = await postWebhook(sender, served, parts, attempt.lightSignal)
    // Wait for the report: a delivery that is handed back must find its subscriber paused already.
    const reported = this.#conclude(attempt, posted)
    if (reported !== undefined) await reported
  }

  /** A rotated secret expires without any change of the subscriber. Mostly there is none. */
  #secretsOf({ secrets, keys }: Served, nowMs: number): RequestParts['secrets'] {
    if (secrets.every(({ expiresAtMs }) => expiresAtMs === null)) return keys
    return this.#secrets.keysOf(
      secrets.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs),
    )
  }

  #conclude(attempt: RunningAttempt, { outcome, endpoint, exchange }: Posted): Promise<void> | undefined {
    const { delivery } = attempt
    const { run } = delivery
    const { errorClass, statusCode } = exchange
    if (errorClass === 'ours' && !attempt.lightSignal.aborted) {
      this.#options.observe.trouble(new Error(exchange.error ?? 'unknown'), 'sending a webhook')
    }
    this.#options.observe.sent(errorClass ?? `${Math.floor((statusCode ?? 0) / 100)}xx`)
    attempt.conclude({ outcome, exchange })
    if (outcome.kind === 'succeeded') this.#options.notes.delivered(delivery)
    const error = exchange.error ?? (outcome.kind === 'failed' ? outcome.reason : null)
    const isProbe = this.#probes.has(run)
    return this.#breaker.tell({ subscription: run.subscription, endpoint, isProbe, error })
  }
}
