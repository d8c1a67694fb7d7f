import type { Core } from '../core/core.ts'
import { badOption } from '../domain/bad-value.ts'
import {
  defineSubscription,
  type Subscription,
  type SubscriptionOptions,
  typesOf,
} from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import type { SubscriptionCache } from './subscription-cache.ts'
import { deleteSubscription, listSubscriptions, upsertSubscription } from './subscriptions.ts'

/** Who wants which events. */
export interface SubscriptionsApi {
  /** Creates or changes a durable pull subscription. */
  subscribe(types: string | readonly string[], options: SubscriptionOptions): Promise<Subscription>
  /** Ends a subscription: its waiting deliveries are cancelled, and stay visible. */
  unsubscribe(name: string): Promise<void>
  subscriptions(): Promise<Subscription[]>
}

export function createSubscriptionsApi(
  { db }: Pick<Core, 'db'>,
  cache: Pick<SubscriptionCache, 'forget'>,
): SubscriptionsApi {
  return {
    subscribe: async (types, options) => {
      const definition = defineSubscription('pull', typesOf(types), options)
      const { subscription } = await upsertSubscription(db, definition)
      cache.forget()
      return subscription
    },
    unsubscribe: async (name) => {
      if (name === 'work') {
        throw badOption('name', 'a subscription that can be ended', 'work, where all tagged events go')
      }
      const no = await deleteSubscription(db, db, { name })
      cache.forget()
      if (no === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscription', id: name })
    },
    subscriptions: () => listSubscriptions(db),
  }
}
