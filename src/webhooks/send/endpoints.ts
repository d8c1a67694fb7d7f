import { randomBytes, randomUUID } from 'node:crypto'
import type { Database } from '../../db/database.ts'
import { uuidv7 } from '../../domain/id.ts'
import { storedEvent } from '../../domain/stored-event.ts'
import { type SubscriptionDefinition, webhookTimeoutMsDefault } from '../../domain/subscription.ts'
import { readClock } from '../../engine/clock.ts'
import { PosthornError } from '../../errors.ts'
import type { Subscriber } from '../../subscriptions/subscribers.ts'
import type { SubscriptionCache } from '../../subscriptions/subscription-cache.ts'
import { type ChangeRequest, changeSubscriber } from '../../subscriptions/subscriptions.ts'
import { secretBytes, secretPrefix } from '../receive/signature.ts'
import type { AddressPolicy } from './address-policy.ts'
import { checkNewest } from './check-secrets.ts'
import { checkKeptSecrets, defineHeaders, type HeaderChange } from './define-headers.ts'
import {
  addSecret,
  type EndpointChange,
  type EndpointDefinition,
  listHeaders,
  listSecrets,
  type SealedHeader,
  type SealedSecret,
} from './endpoint-rows.ts'
import { EndpointSecrets } from './endpoint-secrets.ts'
import type { Sender } from './sender.ts'
import { checkTargetUrl } from './target-url.ts'
import type { Vault } from './vault.ts'
import { type Posted, postWebhook } from './webhook.ts'
import { agent } from './webhook-request.ts'

export interface EndpointsParts {
  readonly db: Database
  readonly vault: Vault
  readonly policy: AddressPolicy
  readonly sender: Sender
  readonly subscriptions: SubscriptionCache
  readonly timeoutMs: number
}

/** What an endpoint is to be, as its subscriber says it. */
export interface EndpointWish extends Omit<EndpointDefinition, 'headers'>, HeaderChange {}

export interface NewEndpoint {
  readonly definition: SubscriptionDefinition
  readonly endpoint: EndpointWish
  readonly status: 'active' | 'paused'
  /** One is made unless it is given. */
  readonly secret: string | undefined
}

const secretBytesNew = 32

/** Makes subscribers that are sent webhooks, and what these are signed with. */
export class Endpoints {
  readonly #parts: EndpointsParts

  constructor(parts: EndpointsParts) {
    this.#parts = parts
  }

  /** How long a webhook may take whose subscriber does not say. */
  get timeoutMs(): number {
    return this.#parts.timeoutMs
  }

  /** The secret is told this once. */
  async create({ secret, ...rest }: NewEndpoint): Promise<{ subscriber: Subscriber; secret: string }> {
    const chosen = secret ?? newSecret()
    const endpoint = this.define(rest.endpoint, null)
    const sealed = await this.#seal(chosen)
    const subscriber = await this.#parts.subscriptions.create({ ...rest, endpoint, secret: sealed })
    return { subscriber, secret: chosen }
  }

  /** What such a wish makes of an endpoint, as far as it can be judged before anything is sent. Throws BAD_FIELD. */
  define(
    { url, format, rules, ...wish }: EndpointWish,
    before: Pick<EndpointDefinition, 'url' | 'headers'> | null,
  ): EndpointChange {
    const target = checkTargetUrl(url, this.#parts.policy)
    if (before !== null) checkKeptSecrets({ url: target, headers: wish.headers }, before)
    const headers = defineHeaders(wish, before?.headers ?? {}, (name, value) => this.#sealHeader(name, value))
    return { url: target, format, rules, ...headers }
  }

  /** Throws SECRET_KEY_WRONG if what the change seals could not be opened by the others. */
  async checkSealed({ sealedHeaders }: EndpointChange): Promise<void> {
    if (sealedHeaders.length > 0) await checkNewest(this.#parts.db, this.#parts.vault)
  }

  /** Signs with a new one from now on, and beside it with those before for as long as is said. */
  async rotateSecret(
    which: ChangeRequest,
    { overlapMs, secret }: { overlapMs: number; secret: string | undefined },
  ): Promise<{ secret: string; version: number }> {
    const { db, subscriptions } = this.#parts
    checkWebhook(await subscriptions.get(which.id))
    const chosen = secret ?? newSecret()
    const sealed = await this.#seal(chosen)
    await changeSubscriber(db, which, (tx, before) =>
      addSecret(tx, db, { subscription: before.no, ...sealed, overlapMs }),
    )
    subscriptions.forget()
    return { secret: chosen, version: (await subscriptions.get(which.id)).version }
  }

  /** Sends one that nobody published, now, whatever the state of the subscriber. Nothing of it is kept. */
  async test(id: string, signal: AbortSignal): Promise<Posted & { readonly deliveryId: string }> {
    const { db, vault, sender, subscriptions } = this.#parts
    const { no, endpoint, timeoutMs } = checkWebhook(await subscriptions.get(id))
    const opened = new EndpointSecrets(vault, (error) => {
      throw error
    })
    const secrets = opened.keysOf(await listSecrets(db, no))
    const sealedHeaders = await listHeaders(db, no)
    const headers = opened.headersOf({ headers: endpoint.headers, sealedHeaders }) ?? {}
    const nowMs = await readClock(db)
    const deliveryId = uuidv7(nowMs)
    const payloadText = '{"test":true}'
    const event = storedEvent({
      id: 0,
      type: 'posthorn.test',
      payloadText,
      orderingKey: null,
      createdAtMs: nowMs,
    })
    const hiddenHeaders = new Set(sealedHeaders.map(({ name }) => name))
    const target = {
      ...endpoint,
      poolKey: id,
      timeoutMs: timeoutMs ?? webhookTimeoutMsDefault,
      hiddenHeaders,
    }
    const parts = {
      ...{ event, secrets, deliveryId, userAgent: agent, format: endpoint.format, headers },
      ...{ attempt: 1, lane: null, replay: null, timestamp: Math.floor(nowMs / 1000) },
    }
    return { deliveryId, ...(await postWebhook(sender, target, parts, signal)) }
  }

  #sealHeader(name: string, value: string): SealedHeader {
    const id = randomUUID()
    return { id, name, sealed: this.#parts.vault.seal(value, id) }
  }

  async #seal(secret: string): Promise<SealedSecret> {
    if (secretBytes(secret) === undefined || !secret.startsWith(secretPrefix)) {
      const expected = `${secretPrefix} and base64 of 16 to 128 bytes`
      throw new PosthornError('BAD_FIELD', { field: 'secret', expected, value: 'something else' })
    }
    await checkNewest(this.#parts.db, this.#parts.vault)
    const id = randomUUID()
    return { id, sealed: this.#parts.vault.seal(secret, id) }
  }
}

function newSecret(): string {
  return secretPrefix + randomBytes(secretBytesNew).toString('base64')
}

function checkWebhook(
  subscriber: Subscriber,
): Subscriber & { endpoint: NonNullable<Subscriber['endpoint']> } {
  const { endpoint, via, id } = subscriber
  if (endpoint !== null) return { ...subscriber, endpoint }
  throw new PosthornError('BAD_FIELD', {
    field: 'id',
    expected: 'that of a webhook subscriber',
    value: `${id} (${via})`,
  })
}
