import { randomBytes } from 'node:crypto'
import type { z } from 'zod'
import { parsePointer } from '../domain/filter.ts'
import { hiddenValue } from '../domain/hidden-headers.ts'
import { type RetryPolicy, scheduleRetry } from '../domain/retry.ts'
import {
  defineSubscription,
  type Subscription,
  type SubscriptionDefinition,
  type SubscriptionOptions,
} from '../domain/subscription.ts'
import { PosthornError } from '../errors.ts'
import type { EndpointWish, Subscriber } from '../hub.ts'
import { readAnyTags } from './read-request.ts'
import type * as schemas from './subscriber-schemas.ts'

type New = z.output<typeof schemas.newSubscriber>
type Change = z.output<typeof schemas.subscriberChange>
type Options = Omit<Change, 'event_types' | 'is_active' | 'name'>

interface Defined {
  readonly definition: SubscriptionDefinition
  readonly endpoint: EndpointWish | null
}

/** A webhook may go without a name: then it is called after its host. */
export function nameFor({ name, url, via }: New): string {
  if (name !== undefined) return name
  if (via === 'pull') throw refused('name', 'given, since it is pulled by it', 'nothing')
  const host = url !== undefined && URL.canParse(url) ? new URL(url).hostname : 'webhook'
  const plain = host.replace(/[^A-Za-z0-9.-]/g, '').slice(0, 80)
  return `${plain || 'webhook'}-${randomBytes(4).toString('hex')}`
}

/** What a new subscriber is to be. */
export function definitionOf(body: New & { name: string }, timeoutMsDefault: number): Defined {
  const { name, via, event_types: types, secret, is_active, ...change } = body
  if (via === 'pull') {
    checkPlain(change)
    return { definition: defineSubscription(via, types, optionsOf(name, change)), endpoint: null }
  }
  const { url, headers = {}, public_headers: publicHeaders = [] } = change
  const { format = 'standard', outcomes: rules = {}, timeout_ms: timeoutMs } = change
  if (url === undefined) throw refused('url', 'given, since deliveries are sent to it', 'nothing')
  const options = optionsOf(name, { ...change, timeout_ms: timeoutMs ?? timeoutMsDefault })
  return { definition: webhook(types, options), endpoint: { url, headers, publicHeaders, format, rules } }
}

/** What a change makes of a subscriber. What it does not name stays as it is. */
export function changeOf(
  now: Subscriber,
  { is_active: isActive, event_types: types, name, ...change }: Change,
): Partial<Defined> & { status?: 'active' | 'paused' } {
  if (name !== undefined && name !== now.name)
    throw refused('name', `${now.name}, which cannot be changed`, name)
  const status = statusChange(now, isActive)
  if (types === undefined && Object.keys(change).length === 0) return status
  if (now.via === 'handler') {
    const expected = 'left out: the process that has the handler says what it wants'
    throw refused(now.name, expected, now.via)
  }
  const options = changedOptions(now, change)
  if (now.endpoint === null) {
    checkPlain(change)
    return { ...status, definition: defineSubscription('pull', types ?? now.types, options) }
  }
  const { url, headers = {}, public_headers: publicHeaders, format, outcomes } = change
  const { endpoint } = now
  return {
    ...status,
    definition: webhook(types ?? now.types, options),
    endpoint: {
      ...{ headers, publicHeaders, url: url ?? endpoint.url, format: format ?? endpoint.format },
      rules: outcomes ?? endpoint.rules,
    },
  }
}

/**
 * Only what is paused is not active: whoever writes back what was read of a suspended one neither pauses it nor says that
 * its endpoint is back.
 */
function statusChange(now: Subscriber, isActive: boolean | undefined): { status?: 'active' | 'paused' } {
  if (isActive === undefined || isActive === isActiveNow(now)) return {}
  return { status: isActive ? 'active' : 'paused' }
}

function isActiveNow({ status }: Subscriber): boolean {
  return status !== 'paused'
}

/** What of a request may stand in the admin log: receivers are let in by headers and by what follows the path. */
export function recordable<
  Body extends {
    url?: string | undefined
    headers?: Record<string, string | null> | undefined
    public_headers?: string[] | undefined
  },
>(body: Body): object {
  const { url, headers, public_headers: shown = [] } = body
  const isShown = (name: string) => shown.some((one) => one.toLowerCase() === name.toLowerCase())
  return {
    ...body,
    ...(url !== undefined && { url: url.replace(/([?#]).+$/s, '$1…') }),
    ...(headers !== undefined && {
      headers: mapHeaders(headers, (value, name) => (value === null || isShown(name) ? value : hiddenValue)),
    }),
  }
}

/** Without a prototype in between: a header may be called __proto__. */
function mapHeaders<Value>(
  headers: Readonly<Record<string, string | null>>,
  read: (value: string | null, name: string) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, read(value, name)]))
}

/** As it is told, with its version. */
export function describe(
  subscriber: Subscriber,
  more: object = {},
): { json: object; headers: Record<string, string> } {
  const { id, name, via, types, tags, status, onExhausted, retry, leaseMs } = subscriber
  const json = {
    ...{ id, name, via, event_types: types, tags: tags?.join(',') ?? null },
    ...{ filter: subscriber.filter, ordering_key: subscriber.orderingKey },
    ...{ status, is_active: isActiveNow(subscriber), on_exhausted: onExhausted },
    ...shownRetry(retry),
    lease_seconds: leaseMs / 1000,
    max_concurrency: subscriber.maxConcurrency,
    rate_per_second: subscriber.ratePerSecond,
    key_concurrency: subscriber.keyConcurrency,
    ...{ created_at: subscriber.createdAt, updated_at: subscriber.updatedAt },
    ...endpointFields(subscriber),
    ...more,
  }
  return { json, headers: { etag: `"${subscriber.version}"` } }
}

function endpointFields({ endpoint, status, ramp, timeoutMs }: Subscriber): object {
  if (endpoint === null) return {}
  const { url, headers, format, rules, unreachable, suspendedAt, probeAt, lastError, lastErrorAt } = endpoint
  return {
    ...{ url, headers: mapHeaders(headers, (value) => value ?? hiddenValue) },
    public_headers: Object.keys(headers).filter((name) => headers[name] !== null),
    ...{ format, timeout_ms: timeoutMs, outcomes: rules },
    endpoint: {
      state: status === 'suspended' ? 'suspended' : ramp === null ? 'open' : 'recovering',
      ...{ unreachable_in_a_row: unreachable, suspended_at: suspendedAt, next_probe_at: probeAt },
      ...{ concurrency: ramp, last_error: lastError, last_error_at: lastErrorAt },
    },
  }
}

/** A lease outlasts two attempts, so that none is taken back from whoever still waits for an answer. */
function webhook(types: readonly string[], options: SubscriptionOptions): SubscriptionDefinition {
  if (types.length === 0)
    throw refused('event_types', 'at least one: it would never be sent anything', 'none')
  const leaseMs = Math.max(options.leaseMs ?? 30_000, 2 * (options.timeoutMs as number))
  return defineSubscription('webhook', types, { ...options, leaseMs })
}

const webhookOnly = ['url', 'headers', 'public_headers', 'format', 'timeout_ms', 'outcomes'] as const

function checkPlain(change: Change): void {
  const given = webhookOnly.find((field) => change[field] !== undefined)
  if (given !== undefined) throw refused(given, 'left out: only webhooks have it', 'given')
}

function optionsOf(name: string, change: Options): SubscriptionOptions {
  const { tags, on_exhausted, lease_seconds, max_concurrency, rate_per_second, key_concurrency } = change
  const { filter, ordering_key: orderingKey, timeout_ms: timeoutMs } = change
  if (orderingKey != null) parsePointer('ordering_key', orderingKey)
  const retry = retryOf(change)
  const wanted = tags == null ? null : readAnyTags(tags)
  return {
    name,
    ...(wanted !== null && { tags: wanted }),
    ...(filter != null && { filter }),
    ...(orderingKey != null && { orderingKey }),
    ...(on_exhausted !== undefined && { onExhausted: on_exhausted }),
    ...(lease_seconds !== undefined && { leaseMs: lease_seconds * 1000 }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(max_concurrency != null && { maxConcurrency: max_concurrency }),
    ...(rate_per_second != null && { ratePerSecond: rate_per_second }),
    ...(key_concurrency != null && { keyConcurrency: key_concurrency }),
    ...(retry !== undefined && { retry }),
  }
}

function retryOf(change: Options): SubscriptionOptions['retry'] {
  const { retry_backoff_seconds: schedule, retry_delay_seconds: delay, max_retries: failuresMax } = change
  if (schedule != null) {
    if (failuresMax !== undefined && failuresMax !== schedule.length + 1) {
      const expected = `${schedule.length + 1} or left out, since retry_backoff_seconds has ${schedule.length} entries`
      throw refused('max_retries', expected, failuresMax)
    }
    return scheduleRetry(schedule.map((seconds) => Math.round(seconds * 1000)))
  }
  if (delay == null && failuresMax === undefined) return undefined
  return { kind: 'fixed', delayMs: Math.round((delay ?? 300) * 1000), failuresMax: failuresMax ?? 3 }
}

/** What a change does not name stays as it is, whatever kind of retries that is. */
function changedOptions(now: Subscription, change: Options): SubscriptionOptions {
  const {
    retry_backoff_seconds: schedule,
    retry_delay_seconds: delay,
    max_retries: failuresMax,
    ...rest
  } = change
  const kept: Change = {
    ...{
      tags: now.tags?.join(',') ?? null,
      filter: now.filter as Change['filter'],
      ordering_key: now.orderingKey,
      on_exhausted: now.onExhausted,
      lease_seconds: now.leaseMs / 1000,
    },
    ...(now.timeoutMs !== null && { timeout_ms: now.timeoutMs }),
    ...{ max_concurrency: now.maxConcurrency, rate_per_second: now.ratePerSecond },
    key_concurrency: now.keyConcurrency,
  }
  const shown: Options = shownRetry(now.retry)
  const isKept =
    isUnchanged(schedule, shown.retry_backoff_seconds) &&
    isUnchanged(delay, shown.retry_delay_seconds) &&
    isUnchanged(failuresMax, shown.max_retries)
  const retry = isKept ? now.retry : retryOf({ ...keptRetry(now, change), ...change })
  return { ...optionsOf(now.name, { ...kept, ...rest }), ...(retry !== undefined && { retry }) }
}

function shownRetry(
  retry: RetryPolicy,
): Required<Pick<Options, 'retry_backoff_seconds' | 'retry_delay_seconds' | 'max_retries'>> {
  return {
    retry_backoff_seconds: retry.kind === 'schedule' ? retry.delaysMs.map((ms) => ms / 1000) : null,
    retry_delay_seconds: retry.kind === 'fixed' ? retry.delayMs / 1000 : null,
    max_retries: retry.failuresMax,
  }
}

/** Left out, or written back as it was read. */
function isUnchanged(given: unknown, shown: unknown): boolean {
  return given === undefined || JSON.stringify(given) === JSON.stringify(shown)
}

/** A schedule takes the place of a delay and of the failures allowed, and a delay that of a schedule. */
function keptRetry(
  { retry }: Subscription,
  { retry_backoff_seconds: given, retry_delay_seconds: delay }: Change,
): Change {
  if (given != null) return {}
  if (retry.kind === 'schedule' && given === undefined && delay == null) {
    return { retry_backoff_seconds: retry.delaysMs.map((ms) => ms / 1000) }
  }
  return {
    ...(retry.kind === 'fixed' && { retry_delay_seconds: retry.delayMs / 1000 }),
    max_retries: retry.failuresMax,
  }
}

function refused(field: string, expected: string, value: unknown): PosthornError {
  return new PosthornError('BAD_FIELD', { field, expected, value })
}
