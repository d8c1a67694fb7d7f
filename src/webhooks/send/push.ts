import type { Runner } from '../../consume/runner.ts'
import type { Source } from '../../consume/source.ts'
import type { Database } from '../../db/database.ts'
import type { Subscription } from '../../domain/subscription.ts'
import { PosthornError } from '../../errors.ts'
import type { SubscriptionCache } from '../../subscriptions/subscription-cache.ts'
import { AddressPolicy, ownAddresses } from './address-policy.ts'
import { checkSecrets } from './check-secrets.ts'
import { Dispatcher, type DispatcherObserver } from './dispatcher.ts'
import { anySecrets } from './endpoint-rows.ts'
import { Endpoints } from './endpoints.ts'
import { Sender } from './sender.ts'
import type { Vault } from './vault.ts'
import type { WebhookNotes } from './webhook-notes.ts'

export interface PushOptions {
  readonly db: Database
  readonly vault: Vault
  readonly subscriptions: SubscriptionCache
  /** Private networks that webhooks may go to. */
  readonly allowCidrs: readonly string[]
  /** Where the database is, which is nobody's endpoint. */
  readonly databaseAddresses: readonly string[]
  /** How long a webhook may take whose subscriber does not say. */
  readonly webhookTimeoutMs: number
  readonly batchSize: number
  /** Whether this process sends what is due. Tests of single endpoints are sent by any. */
  readonly dispatcher: boolean
  /** Webhooks are leased, attempted and settled like any other delivery. */
  readonly runner: Runner
  readonly source: Pick<Source, 'lease'>
  readonly notes: WebhookNotes
  readonly observe: PushObserver
}

export interface PushObserver extends DispatcherObserver {
  /** An endpoint's name led to where nothing may be sent. */
  blocked(found: { host: string; address: string }): void
}

/** Deliveries by webhook: whom to, how they are signed, and the sending of them. */
export class Push {
  readonly endpoints: Endpoints
  readonly #options: PushOptions
  readonly #sender: Sender
  readonly #dispatcher: Dispatcher | undefined

  constructor(options: PushOptions) {
    const {
      db,
      vault,
      subscriptions,
      allowCidrs,
      databaseAddresses,
      webhookTimeoutMs: timeoutMs,
      observe,
    } = options
    const policy = new AddressPolicy(allowCidrs, { own: [...ownAddresses(), ...databaseAddresses] })
    this.#options = options
    this.#sender = new Sender({ policy, dns: { onBlocked: (found) => observe.blocked(found) } })
    this.endpoints = new Endpoints({ db, vault, policy, sender: this.#sender, subscriptions, timeoutMs })
    // Without a key nothing can be signed: then other processes send, and this one has handlers, say.
    this.#dispatcher =
      options.dispatcher && vault.isReady ? new Dispatcher({ ...options, sender: this.#sender }) : undefined
  }

  get isSending(): boolean {
    return this.#dispatcher !== undefined
  }

  /**
   * Throws SECRET_KEY_WRONG where the key at hand opens none of the secrets: what is sealed with it could not be opened by
   * the others either. Without a key there is nothing to send with, which is told if there is something to send.
   */
  async start(): Promise<void> {
    const { db, vault, dispatcher, observe } = this.#options
    if (vault.isReady) await checkSecrets(db, vault)
    else if (dispatcher && (await anySecrets(db, 1)).length > 0) {
      observe.trouble(new PosthornError('SECRET_KEY_MISSING'), 'sending webhooks')
    }
    this.#dispatcher?.start()
  }

  async stop(): Promise<void> {
    await this.#dispatcher?.stop()
    await this.#sender.close()
  }

  async refresh(subscriptions: readonly Subscription[]): Promise<void> {
    await this.#dispatcher?.refresh(subscriptions)
  }

  async probe(): Promise<void> {
    await this.#dispatcher?.probe()
  }
}
