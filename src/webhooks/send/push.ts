import type { Subscription } from '../../domain/subscription.ts'
import { PosthornError } from '../../errors.ts'
import type { SubscriptionCache } from '../../subscriptions/subscription-cache.ts'
import { AddressPolicy, ownAddresses } from './address-policy.ts'
import { checkSecrets } from './check-secrets.ts'
import { Dispatcher, type DispatcherObserver, type DispatcherOptions } from './dispatcher.ts'
import { newestSecrets } from './endpoint-rows.ts'
import { Endpoints } from './endpoints.ts'
import { Sender } from './sender.ts'

/** Webhooks are leased, attempted and settled like any other delivery. */
export interface PushOptions extends Omit<DispatcherOptions, 'sender' | 'observe'> {
  readonly subscriptions: SubscriptionCache
  /** Private networks that webhooks may go to. */
  readonly allowCidrs: readonly string[]
  /** The addresses of the database, which must not be an endpoint. */
  readonly databaseAddresses: readonly string[]
  /** The timeout of webhooks whose subscriber has none of its own. */
  readonly webhookTimeoutMs: number
  /** Whether this process sends webhooks. Every process can send test events. */
  readonly dispatcher: boolean
  readonly observe: PushObserver
}

export interface PushObserver extends DispatcherObserver {
  /** The name of an endpoint resolved to an address that is not allowed. */
  blocked(found: { host: string; address: string }): void
}

/** Webhooks: endpoints, their secrets, and sending. */
export class Push {
  readonly endpoints: Endpoints
  readonly #options: PushOptions
  readonly #sender: Sender
  readonly #dispatcher: Dispatcher | undefined

  constructor(options: PushOptions) {
    const { vault, databaseAddresses, webhookTimeoutMs: timeoutMs, observe } = options
    const policy = new AddressPolicy(options.allowCidrs, { own: [...ownAddresses(), ...databaseAddresses] })
    this.#options = options
    this.#sender = new Sender({ policy, dns: { onBlocked: (found) => observe.blocked(found) } })
    this.endpoints = new Endpoints({ ...options, policy, sender: this.#sender, timeoutMs })
    // Without a key this process cannot sign: other processes send.
    this.#dispatcher =
      options.dispatcher && vault.isReady ? new Dispatcher({ ...options, sender: this.#sender }) : undefined
  }

  get isSending(): boolean {
    return this.#dispatcher !== undefined
  }

  /**
   * Throws SECRET_KEY_WRONG if the key opens none of the secrets: other processes could not open what it seals. Without a key
   * nothing can be sent, which is reported if there are webhook subscribers.
   */
  async start(): Promise<void> {
    const { db, vault, dispatcher, observe } = this.#options
    if (vault.isReady) await checkSecrets(db, vault)
    else if (dispatcher && (await newestSecrets(db, 1)).length > 0) {
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
