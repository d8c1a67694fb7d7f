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

/** What a subscription asks for and how its deliveries are treated. Stored; the same on every node. */
export interface SubscriptionDefinition {
  readonly name: string
  readonly via: 'handler' | 'pull' | 'webhook'
  /** Type patterns: `order.created`, `order.*`, `*`. */
  readonly types: readonly string[]
  /** Any of these; null: whatever its tags. */
  readonly tags: readonly string[] | null
  /** What else it asks of an event, by JSON pointer; null: nothing. */
  readonly filter: EventFilter | null
  /** A JSON pointer to what lanes go by; null: the event's own ordering key. */
  readonly orderingKey: string | null
  readonly retry: RetryPolicy
  readonly leaseMs: number
  readonly timeoutMs: number | null
  /** When a lane's head is buried: the lane goes on, or stops until an operator decides. */
  readonly onExhausted: 'skip' | 'block'
  /** Limits over the whole fleet; null: none. */
  readonly maxConcurrency: number | null
  readonly ratePerSecond: number | null
  readonly keyConcurrency: number | null
  readonly storage: QueueStorage
  readonly queue: QueueConfig
}

export type SubscriptionStatus = 'active' | 'paused' | 'draining' | 'suspended' | 'deleted'

export interface Subscription extends SubscriptionDefinition {
  /** Its number within this database: 21 bits of every delivery's id. */
  readonly no: number
  readonly id: string
  readonly status: SubscriptionStatus
  /** How many may be leased over the whole fleet while its endpoint recovers; null: as many as usual. */
  readonly ramp: number | null
}

/** It has a limit over the whole fleet, so its leases go one after the other. */
export function isLimited({ maxConcurrency, ratePerSecond, ramp }: Subscription): boolean {
  return maxConcurrency !== null || ratePerSecond !== null || ramp !== null
}

export interface SubscriptionOptions extends QueueOptions {
  readonly name: string
  readonly tags?: string | readonly string[]
  /** `{"/payload/paid": true}`: takes only events for which all of this holds. */
  readonly filter?: EventFilter
  /** A JSON pointer such as `/payload/customer`: order is kept for each of its values. */
  readonly orderingKey?: string
  /** A whole policy, or what differs from the default one. */
  readonly retry?: RetryPolicy | Partial<Omit<Extract<RetryPolicy, { kind: 'exponential' }>, 'kind'>>
  readonly leaseMs?: number
  readonly timeoutMs?: number
  readonly onExhausted?: 'skip' | 'block'
  readonly maxConcurrency?: number
  readonly ratePerSecond?: number
  readonly keyConcurrency?: number
}

/** What only the subscriptions of handlers can be. */
export interface HandledOptions {
  /** `memory`: events pass through the memory of this process, and what a crash can lose is what came last. */
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

/** What `hub.on` takes and `hub.subscribe` does not is refused there. */
export function checkSubscriptionOptions(via: SubscriptionDefinition['via'], options: object): void {
  if (via === 'handler') checkOptions(options, handledOptions, 'a handler')
  else checkOptions(options, subscriptionOptions, 'a subscription')
}

/** A subscription without any type would never be owed anything. */
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
    ratePerSecond: rate(options.ratePerSecond),
    keyConcurrency: optional('keyConcurrency', options.keyConcurrency, 1, 100_000),
    storage,
    queue: defineQueue(options),
  })
}

/** A webhook that is given less cannot be answered; more than this, and a dead endpoint holds its lanes for long. */
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

/** One in eleven days: what is much smaller is zero to PostgreSQL as soon as it is multiplied. */
export const rateMin = 0.000_001
export const rateMax = 1_000_000

function rate(value: unknown): number | null {
  if (value === undefined) return null
  if (typeof value === 'number' && value >= rateMin && value <= rateMax) return value
  throw badOption('ratePerSecond', `a number from ${rateMin} to ${rateMax}`, value)
}
