import { badOption } from '../domain/bad-value.ts'
import {
  checkSubscriptionOptions,
  defineSubscription,
  type HandledOptions,
  integer,
  type SubscriptionDefinition,
  type SubscriptionOptions,
  typesOf,
} from '../domain/subscription.ts'
import type { Handler } from './attempt.ts'

export interface HandlerOptions extends SubscriptionOptions, HandledOptions {
  /** How many attempts this process runs at once. Default 10. */
  readonly concurrency?: number
}

/** A handler and the definition of the subscription that it serves. */
export interface Registration {
  readonly definition: SubscriptionDefinition
  readonly handler: Handler
  readonly concurrency: number
}

export function defineRegistration(
  types: string | readonly string[],
  given: HandlerOptions,
  handler: Handler,
): Registration {
  checkSubscriptionOptions('handler', given)
  const { concurrency = 10, ...options } = given
  if (typeof handler !== 'function') {
    throw badOption('handler', 'a function', typeof handler)
  }
  return {
    definition: defineSubscription('handler', typesOf(types), options),
    handler,
    concurrency: integer('concurrency', concurrency, 1, 10_000),
  }
}
