import { randomBytes, randomUUID } from 'node:crypto'
import type { Database } from '../../db/database.ts'
import { badField } from '../../domain/bad-value.ts'
import { uuidv7 } from '../../domain/id.ts'
import { storedEvent } from '../../domain/stored-event.ts'
import type { SubscriptionDefinition } from '../../domain/subscription.ts'
import { readClock } from '../../engine/clock.ts'
import type { PosthornError } from '../../errors.ts'
import type { Subscriber } from '../../subscriptions/subscribers.ts'
import type { SubscriptionCache } from '../../subscriptions/subscription-cache.ts'
import { type ChangeRequest, changeSubscriber } from '../../subscriptions/subscriptions.ts'
import { secretBytes, secretPrefix } from '../receive/signature.ts'
import type { AddressPolicy } from './address-policy.ts'
import { checkNewest } from './check-secrets.ts'
import {
  addSecret,
  type EndpointChange,
  type EndpointDefinition,
  listEndpoints,
  type SealedHeader,
  type SealedSecret,
} from './endpoint-rows.ts'
import { EndpointSecrets } from './endpoint-secrets.ts'
import { checkKeptSecrets, defineHeaders, type HeaderChange } from './own-headers.ts'
import { type Posted, postWebhook, targetOf } from './post-webhook.ts'
import type { Sender } from './sender.ts'
import { checkTargetUrl } from './target-url.ts'
import type { Vault } from './vault.ts'
import { agent } from './webhook-request.ts'

export interface EndpointsParts {
  readonly db: Database
  readonly vault: Vault
  readonly policy: AddressPolicy
  readonly sender: Sender
  readonly subscriptions: SubscriptionCache
  readonly timeoutMs: number
}

/** An endpoint as its subscriber describes it. */
export interface EndpointWish extends Omit<EndpointDefinition, 'headers'>, HeaderChange {}

export interface NewEndpoint {
  readonly definition: SubscriptionDefinition
  readonly endpoint: EndpointWish
  readonly status: 'active' | 'paused'
  /** Default: a new one. */
  readonly secret: string | undefined
}

const secretBytesNew = 32
const testEvent = { id: 0, type: 'posthorn.test', payloadText: '{"test":true}', orderingKey: null } as const

/** Creates webhook subscribers, and the secrets that sign their requests. */
export class Endpoints {
  readonly #parts: EndpointsParts

  constructor(parts: EndpointsParts) {
    this.#parts = parts
  }

  /** The timeout of webhooks whose subscriber has none of its own. */
  get timeoutMs(): number {
    return this.#parts.timeoutMs
  }

  /** The secret is returned this once. */
  async create({ secret, ...rest }: NewEndpoint): Promise<{ subscriber: Subscriber; secret: string }> {
    const chosen = secret ?? newSecret()
    const endpoint = this.define(rest.endpoint, null)
    const sealed = await this.#seal(chosen)
    const subscriber = await this.#parts.subscriptions.create({ ...rest, endpoint, secret: sealed })
    return { subscriber, secret: chosen }
  }

  /** Checks what can be checked before anything is sent. Throws BAD_FIELD. */
  define(
    { url, format, rules, ...wish }: EndpointWish,
    before: Pick<EndpointDefinition, 'url' | 'headers'> | null,
  ): EndpointChange {
    const target = checkTargetUrl(url, this.#parts.policy)
    if (before !== null) checkKeptSecrets({ url: target, headers: wish.headers }, before)
    const headers = defineHeaders(wish, before?.headers ?? {}, (name, value) => this.#sealHeader(name, value))
    return { url: target, format, rules, ...headers }
  }

  /** Throws SECRET_KEY_WRONG if other processes could not open what the change seals. */
  async checkSealed({ sealedHeaders }: EndpointChange): Promise<void> {
    if (sealedHeaders.length > 0) await checkNewest(this.#parts.db, this.#parts.vault)
  }

  /** Signs with a new secret from now on, and for `overlapMs` with the previous ones, too. */
  async rotateSecret(
    which: ChangeRequest,
    { overlapMs, secret }: { overlapMs: number; secret: string | undefined },
  ): Promise<{ secret: string; version: number }> {
    const { db, subscriptions } = this.#parts
    const subscriber = await subscriptions.get(which.id)
    if (subscriber.endpoint === null) throw notWebhook(subscriber)
    const chosen = secret ?? newSecret()
    const sealed = await this.#seal(chosen)
    await changeSubscriber(db, which, (tx, before) =>
      addSecret(tx, db, { subscription: before.no, ...sealed, overlapMs }),
    )
    subscriptions.forget()
    return { secret: chosen, version: (await subscriptions.get(which.id)).version }
  }

  /** Sends a test event, now, whatever the subscriber's status. Nothing of it is stored. */
  async test(id: string, signal: AbortSignal): Promise<Posted & { readonly deliveryId: string }> {
    const { db, vault, sender, subscriptions } = this.#parts
    const subscriber = await subscriptions.get(id)
    const [endpoint] = await listEndpoints(db, subscriber.no)
    if (endpoint === undefined) throw notWebhook(subscriber)
    const opened = new EndpointSecrets(vault, (error) => {
      throw error
    })
    const nowMs = await readClock(db)
    const deliveryId = uuidv7(nowMs)
    const parts = {
      event: storedEvent({ ...testEvent, createdAtMs: nowMs }),
      secrets: opened.keysOf(endpoint.secrets),
      deliveryId,
      userAgent: agent,
      format: endpoint.format,
      headers: opened.headersOf(endpoint) ?? {},
      attempt: 1,
      lane: null,
      replay: null,
      timestamp: Math.floor(nowMs / 1000),
    }
    return { deliveryId, ...(await postWebhook(sender, targetOf(endpoint, subscriber), parts, signal)) }
  }

  #sealHeader(name: string, value: string): SealedHeader {
    const id = randomUUID()
    return { id, name, sealed: this.#parts.vault.seal(value, id) }
  }

  async #seal(secret: string): Promise<SealedSecret> {
    if (secretBytes(secret) === undefined || !secret.startsWith(secretPrefix)) {
      throw badField('secret', `${secretPrefix} and base64 of 16 to 128 bytes`, 'something else')
    }
    await checkNewest(this.#parts.db, this.#parts.vault)
    const id = randomUUID()
    return { id, sealed: this.#parts.vault.seal(secret, id) }
  }
}

function newSecret(): string {
  return secretPrefix + randomBytes(secretBytesNew).toString('base64')
}

function notWebhook({ id, via }: Subscriber): PosthornError {
  return badField('id', 'the id of a webhook subscriber', `${id} (${via})`)
}
