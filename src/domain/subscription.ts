import { badOption } from './bad-value.ts'
import { type EventFilter, parseFilter, parsePointer } from './filter.ts'
import { checkOptions, type NamesOf } from './known-names.ts'
import { checkPattern } from './pattern.ts'
import {
  defineQueue,
  type QueueConfig,
  type QueueOptions,
  type QueueStorage,
  queueOptions,
} from './queue-config.ts'
import { checkRetryPolicy, defaultRetry, type RetryPolicy } from './retry.ts'
import { parseTags } from './tags.ts'

/** Which events a subscription receives, and how it receives them. Stored in the database, so the same on every node. */
export interface SubscriptionDefinition {
  readonly name: string
  readonly via: 'handler' | 'pull' | 'webhook'
  /** Type patterns: `order.created`, `order.*`, `*`. */
  readonly types: readonly string[]
  /** Only events with any of these tags; null: with any tags or none. */
  readonly tags: readonly string[] | null
  /** Further conditions on events, by JSON pointer; null: none. */
  readonly filter: EventFilter | null
  /** A JSON pointer to the value that orders events; null: the ordering key of the event. */
  readonly orderingKey: string | null
  readonly retry: RetryPolicy
  readonly leaseMs: number
  readonly timeoutMs: number | null
  /** When the head of a lane is buried: `skip` lets the lane go on, `block` stops it until an operator decides. */
  readonly onExhausted: 'skip' | 'block'
  /** Limits over all processes; null: no limit. */
  readonly maxConcurrency: number | null
  readonly ratePerSecond: number | null
  readonly keyConcurrency: number | null
  readonly storage: QueueStorage
  readonly queue: QueueConfig
}

export type SubscriptionStatus = 'active' | 'paused' | 'draining' | 'suspended' | 'deleted'

export interface Subscription extends SubscriptionDefinition {
  /** The number of the subscription in this database: 21 bits of every delivery's id. */
  readonly no: number
  readonly id: string
  readonly status: SubscriptionStatus
  /** While the endpoint recovers: how many deliveries may be leased over all processes; null otherwise. */
  readonly ramp: number | null
}

/** Whether the subscription has a limit over all processes, so that its leases must follow each other. */
export function isLimited({ maxConcurrency, ratePerSecond, ramp }: Subscription): boolean {
  return maxConcurrency !== null || ratePerSecond !== null || ramp !== null
}

export interface SubscriptionOptions extends QueueOptions {
  readonly name: string
  readonly tags?: string | readonly string[]
  /** `{"/payload/paid": true}`: only events for which all conditions hold. */
  readonly filter?: EventFilter
  /** A JSON pointer such as `/payload/customer`: events with the same value are delivered in order. */
  readonly orderingKey?: string
  /** A whole policy, or what differs from the default policy. */
  readonly retry?: RetryPolicy | Partial<Omit<Extract<RetryPolicy, { kind: 'exponential' }>, 'kind'>>
  readonly leaseMs?: number
  readonly timeoutMs?: number
  readonly onExhausted?: 'skip' | 'block'
  readonly maxConcurrency?: number
  readonly ratePerSecond?: number
  readonly keyConcurrency?: number
}

/** Options that only the subscriptions of handlers have. */
export interface HandledOptions {
  /** `memory`: events pass through the memory of this process, and a crash loses what came last. */
  readonly storage?: QueueStorage
}

const subscriptionOptions: NamesOf<SubscriptionOptions> = {
  name: true,
  tags: true,
  filter: true,
  orderingKey: true,
  retry: true,
  leaseMs: true,
  timeoutMs: true,
  onExhausted: true,
  maxConcurrency: true,
  ratePerSecond: true,
  keyConcurrency: true,
  ...queueOptions,
}

const handledOptions: NamesOf<SubscriptionOptions & HandledOptions & { concurrency: number }> = {
  ...subscriptionOptions,
  storage: true,
  concurrency: true,
}

/** Options that only `hub.on` takes are refused by `hub.subscribe`. */
export function checkSubscriptionOptions(via: SubscriptionDefinition['via'], options: object): void {
  if (via === 'handler') checkOptions(options, handledOptions, 'a handler')
  else checkOptions(options, subscriptionOptions, 'a subscription')
}

/** A subscription without a type would never receive an event, so an empty list is refused. */
export function typesOf(types: string | readonly string[]): readonly string[] {
  if (Array.isArray(types) && types.length === 0) {
    throw badOption('type pattern', 'text, or a list of at least one', 'an empty list')
  }
  return typeof types === 'string' ? [types] : types
}

export const webhookTimeoutMsDefault = 10_000

const defaults = {
  handler: { retry: defaultRetry.handler, leaseMs: 30_000, timeoutMs: 15 * 60_000 },
  pull: { retry: defaultRetry.pull, leaseMs: 60_000, timeoutMs: null },
  webhook: { retry: defaultRetry.webhook, leaseMs: 30_000, timeoutMs: webhookTimeoutMsDefault },
} as const

export function defineSubscription(
  via: SubscriptionDefinition['via'],
  types: readonly string[],
  options: SubscriptionOptions & HandledOptions,
): SubscriptionDefinition {
  checkSubscriptionOptions(via, options)
  if (!Array.isArray(types)) throw badOption('type pattern', 'text, or a list of texts', types)
  for (const type of types) checkPattern(type)
  const { name, tags, filter, orderingKey, retry, leaseMs, timeoutMs, onExhausted } = options
  if (typeof name !== 'string' || !namePattern.test(name)) {
    throw badOption('name', '1 to 100 of A-Z a-z 0-9 _ . : -', name)
  }
  if (onExhausted !== undefined && onExhausted !== 'skip' && onExhausted !== 'block') {
    throw badOption('onExhausted', '"skip" or "block"', onExhausted)
  }
  const { storage = 'database' } = options
  if (storage !== 'database' && storage !== 'memory')
    throw badOption('storage', '"database" or "memory"', storage)
  if (filter !== undefined) parseFilter(filter)
  if (orderingKey !== undefined) parsePointer('orderingKey', orderingKey)
  return Object.freeze({
    name,
    via,
    types: [...new Set(types)],
    tags: tags === undefined ? null : parseTags(tags),
    filter: filter ?? null,
    orderingKey: orderingKey ?? null,
    retry: parseRetry(via, retry),
    leaseMs: integer('leaseMs', leaseMs ?? defaults[via].leaseMs, 1_000, 43_200_000),
    timeoutMs:
      timeoutMs === undefined ? defaults[via].timeoutMs : integer('timeoutMs', timeoutMs, 1, 86_400_000),
    onExhausted: onExhausted ?? 'skip',
    maxConcurrency: optional('maxConcurrency', options.maxConcurrency, 1, 100_000),
    ratePerSecond: options.ratePerSecond === undefined ? null : rate(options.ratePerSecond),
    keyConcurrency: optional('keyConcurrency', options.keyConcurrency, 1, 100_000),
    storage,
    queue: defineQueue(options),
  })
}

/** With less time no endpoint can answer; with more, a dead endpoint holds its lanes for too long. */
export const webhookTimeoutMsRange = [100, 120_000] as const

const namePattern = /^[A-Za-z0-9_.:-]{1,100}$/

function parseRetry(via: SubscriptionDefinition['via'], retry: SubscriptionOptions['retry']): RetryPolicy {
  if (retry === undefined) return defaults[via].retry
  if (typeof retry !== 'object' || retry === null)
    throw badOption('retry', 'a policy, or what differs from the default', retry)
  if ('kind' in retry) return checkRetryPolicy(retry)
  return checkRetryPolicy({ ...defaultRetry.handler, ...retry })
}

export function integer(option: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw badOption(option, `an integer from ${min} to ${max}`, value)
}

function optional(option: string, value: unknown, min: number, max: number): number | null {
  return value === undefined ? null : integer(option, value, min, max)
}

/** One delivery in eleven days. PostgreSQL rounds products with much smaller rates to zero. */
export const rateMin = 0.000_001
export const rateMax = 1_000_000

export function rate(value: unknown): number {
  if (typeof value === 'number' && value >= rateMin && value <= rateMax) return value
  throw badOption('ratePerSecond', `a number from ${rateMin} to ${rateMax}`, value)
}
