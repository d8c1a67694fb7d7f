import type { Runner } from '../consume/runner.ts'
import type { Source } from '../consume/source.ts'
import type { Database } from '../db/database.ts'
import type { Directory } from '../directory.ts'
import { AddressPolicy, ownAddresses } from '../dispatch/address-policy.ts'
import { Sender } from '../dispatch/sender.ts'
import type { Vault } from '../dispatch/vault.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import type { Subscription } from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import { anySecrets } from '../operations/endpoints.ts'
import { checkSecrets } from './check-secrets.ts'
import { Dispatcher, type DispatcherObserver } from './dispatcher.ts'
import { Endpoints } from './endpoints.ts'

export interface PushOptions {
  readonly db: Database
  readonly vault: Vault
  readonly directory: Directory
  /** Private networks that webhooks may go to. */
  readonly allowCidrs: readonly string[]
  /** Where the database is, which is nobody's endpoint. */
  readonly databaseAddresses: readonly string[]
  /** How long a webhook may take whose subscriber does not say. */
  readonly webhookTimeoutMs: number
  readonly batchSize: number
  /** Whether this process sends what is due. Tests of single endpoints are sent by any. */
  readonly dispatcher: boolean
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
  #dispatcher: Dispatcher | undefined

  constructor(options: PushOptions) {
    const {
      db,
      vault,
      directory,
      allowCidrs,
      databaseAddresses,
      webhookTimeoutMs: timeoutMs,
      observe,
    } = options
    const policy = new AddressPolicy(allowCidrs, { own: [...ownAddresses(), ...databaseAddresses] })
    this.#options = options
    this.#sender = new Sender({ policy, dns: { onBlocked: (found) => observe.blocked(found) } })
    this.endpoints = new Endpoints({ db, vault, policy, sender: this.#sender, directory, timeoutMs })
  }

  get isSending(): boolean {
    return this.#dispatcher !== undefined
  }

  /** What it sends, it leases and settles like everybody. */
  connect(runner: Runner, source: Pick<Source, 'lease'>): void {
    const { db, vault, batchSize, dispatcher, observe } = this.#options
    // Without a key nothing can be signed: then others send, and this process has handlers, say.
    if (!dispatcher || !vault.isReady) return
    this.#dispatcher = new Dispatcher({ db, vault, batchSize, observe, sender: this.#sender, runner, source })
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

  async prepare(runs: readonly LeasedRun[]): Promise<void> {
    await this.#dispatcher?.prepare(runs)
  }

  async probe(): Promise<void> {
    await this.#dispatcher?.probe()
  }
}
