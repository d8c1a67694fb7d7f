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
import type { EndpointWish, Subscriber } from '../hub.ts'
import { writerOf } from './answer-writer.ts'
import { given } from './given.ts'
import { readAnyTags } from './read-request.ts'
import { badField } from './schema-issue.ts'
import * as schemas from './subscriber-schemas.ts'

/** Subscriptions as HTTP has them: read from a request, and written to an answer. */

type New = z.output<typeof schemas.newSubscriber>
type Change = z.output<typeof schemas.subscriberChange>
type Options = Omit<Change, 'event_types' | 'is_active' | 'name'>

interface Defined {
  readonly definition: SubscriptionDefinition
  readonly endpoint: EndpointWish | null
}

/** A webhook without a name is named after its host. */
export function nameFor({ name, url, via }: New): string {
  if (name !== undefined) return name
  if (via === 'pull') throw badField('name', 'given, since workers pull by it', undefined)
  const host = url !== undefined && URL.canParse(url) ? new URL(url).hostname : 'webhook'
  const plain = host.replace(/[^A-Za-z0-9.-]/g, '').slice(0, 80)
  return `${plain || 'webhook'}-${randomBytes(4).toString('hex')}`
}

/** The definition of a new subscription. */
export function definitionOf(body: New & { name: string }, timeoutMsDefault: number): Defined {
  const { name, via, event_types: types, secret, is_active, ...change } = body
  if (via === 'pull') {
    refuseWebhookFields(change)
    return { definition: defineSubscription(via, types, optionsOf(name, change)), endpoint: null }
  }
  const { url, headers = {}, public_headers: publicHeaders = [] } = change
  const { format = 'standard', outcomes: rules = {}, timeout_ms: timeoutMs } = change
  if (url === undefined) throw badField('url', 'given, since deliveries are sent to it', undefined)
  const options = optionsOf(name, { ...change, timeout_ms: timeoutMs ?? timeoutMsDefault })
  return { definition: webhook(types, options), endpoint: { url, headers, publicHeaders, format, rules } }
}

/** A subscription after a change. Fields that the change does not name stay as they are. */
export function changeOf(
  now: Subscriber,
  { is_active: isActive, event_types: types, name, ...change }: Change,
): Partial<Defined> & { status?: 'active' | 'paused' } {
  if (name !== undefined && name !== now.name)
    throw badField('name', `${now.name}, which cannot be changed`, name)
  const status = statusChange(now, isActive)
  if (types === undefined && Object.keys(change).length === 0) return status
  if (now.via === 'handler')
    throw badField(now.name, 'left out: the process that has the handler defines the subscription', now.via)
  const options = changedOptions(now, change)
  if (now.endpoint === null) {
    refuseWebhookFields(change)
    return { ...status, definition: defineSubscription('pull', types ?? now.types, options) }
  }
  const { endpoint } = now
  return {
    ...status,
    definition: webhook(types ?? now.types, options),
    endpoint: {
      headers: change.headers ?? {},
      publicHeaders: change.public_headers,
      url: change.url ?? endpoint.url,
      format: change.format ?? endpoint.format,
      rules: change.outcomes ?? endpoint.rules,
    },
  }
}

/** A client that sends back what it has read of a suspended subscription neither pauses nor resumes it. */
function statusChange(now: Subscriber, isActive: boolean | undefined): { status?: 'active' | 'paused' } {
  if (isActive === undefined || isActive === isActiveNow(now)) return {}
  return { status: isActive ? 'active' : 'paused' }
}

function isActiveNow({ status }: Subscriber): boolean {
  return status !== 'paused'
}

/** What the admin log may hold of a request: receivers may authenticate by headers, and by what follows the path of the URL. */
export function recordable(body: Pick<Change, 'url' | 'headers' | 'public_headers'>): object {
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

/** Object.fromEntries, since a header may be called __proto__. */
function mapHeaders<Value>(
  headers: Readonly<Record<string, string | null>>,
  read: (value: string | null, name: string) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, read(value, name)]))
}

/** A subscription as the answer shows it, with its version as the ETag. */
export function describe(
  subscriber: Subscriber,
  more: object = {},
): { json: object; headers: Record<string, string> } {
  const json = { ...subscriberJson(subscriber), ...more }
  return { json, headers: { etag: `"${subscriber.version}"` } }
}

const subscriberJson = writerOf(schemas.subscriber, (subscriber: Subscriber) => ({
  event_types: subscriber.types,
  tags: subscriber.tags?.join(',') ?? null,
  is_active: isActiveNow(subscriber),
  ...shownRetry(subscriber.retry),
  lease_seconds: subscriber.leaseMs / 1000,
  ...endpointFields(subscriber),
}))

function endpointFields({ endpoint, status, ramp, timeoutMs }: Subscriber) {
  if (endpoint === null) return { timeout_ms: undefined, endpoint: undefined }
  const { url, headers, format, rules } = endpoint
  return {
    url,
    headers: mapHeaders(headers, (value) => value ?? hiddenValue),
    public_headers: Object.keys(headers).filter((name) => headers[name] !== null),
    format,
    timeout_ms: timeoutMs,
    outcomes: rules,
    endpoint: {
      state: status === 'suspended' ? 'suspended' : ramp === null ? 'open' : 'recovering',
      unreachable_in_a_row: endpoint.unreachable,
      suspended_at: endpoint.suspendedAt,
      next_probe_at: endpoint.probeAt,
      concurrency: ramp,
      last_error: endpoint.lastError,
      last_error_at: endpoint.lastErrorAt,
    },
  }
}

/** A lease outlasts two attempts, so that it is not taken back while an attempt still waits for its answer. */
function webhook(types: readonly string[], options: SubscriptionOptions): SubscriptionDefinition {
  if (types.length === 0)
    throw badField('event_types', 'at least one type: without one, nothing would ever be sent', 'none')
  const leaseMs = Math.max(options.leaseMs ?? 30_000, 2 * (options.timeoutMs as number))
  return defineSubscription('webhook', types, { ...options, leaseMs })
}

const webhookFields = ['url', 'headers', 'public_headers', 'format', 'timeout_ms', 'outcomes'] as const

function refuseWebhookFields(change: Change): void {
  const given = webhookFields.find((field) => change[field] !== undefined)
  if (given !== undefined) throw badField(given, 'left out: only webhooks have it', 'given')
}

function optionsOf(name: string, change: Options): SubscriptionOptions {
  const { tags, lease_seconds: leaseSeconds, ordering_key: orderingKey } = change
  if (orderingKey != null) parsePointer('ordering_key', orderingKey)
  const options = given({
    tags: tags == null ? null : readAnyTags(tags),
    filter: change.filter,
    orderingKey,
    onExhausted: change.on_exhausted,
    leaseMs: leaseSeconds === undefined ? undefined : leaseSeconds * 1000,
    timeoutMs: change.timeout_ms,
    maxConcurrency: change.max_concurrency,
    ratePerSecond: change.rate_per_second,
    keyConcurrency: change.key_concurrency,
    retry: retryOf(change),
  })
  return { name, ...options }
}

function retryOf(change: Options): SubscriptionOptions['retry'] {
  const { retry_backoff_seconds: schedule, retry_delay_seconds: delay, max_retries: failuresMax } = change
  if (schedule != null) {
    if (failuresMax !== undefined && failuresMax !== schedule.length + 1) {
      const expected = `${schedule.length + 1} or left out, since retry_backoff_seconds has ${schedule.length} entries`
      throw badField('max_retries', expected, failuresMax)
    }
    return scheduleRetry(schedule.map((seconds) => Math.round(seconds * 1000)))
  }
  if (delay == null && failuresMax === undefined) return undefined
  return { kind: 'fixed', delayMs: Math.round((delay ?? 300) * 1000), failuresMax: failuresMax ?? 3 }
}

/** The options after a change. A retry policy that HTTP cannot express stays as it is until the change names retries. */
function changedOptions(now: Subscription, change: Options): SubscriptionOptions {
  const kept: Change = {
    tags: now.tags?.join(',') ?? null,
    filter: now.filter as Change['filter'],
    ordering_key: now.orderingKey,
    on_exhausted: now.onExhausted,
    lease_seconds: now.leaseMs / 1000,
    ...(now.timeoutMs !== null && { timeout_ms: now.timeoutMs }),
    max_concurrency: now.maxConcurrency,
    rate_per_second: now.ratePerSecond,
    key_concurrency: now.keyConcurrency,
  }
  const shown = shownRetry(now.retry)
  // Left out, or sent back as it was read.
  const isKept = retryFields.every(
    (name) => change[name] === undefined || JSON.stringify(change[name]) === JSON.stringify(shown[name]),
  )
  const retry = isKept ? now.retry : retryOf({ ...keptRetry(now.retry, change), ...change })
  return { ...optionsOf(now.name, { ...kept, ...change }), ...given({ retry }) }
}

const retryFields = ['retry_backoff_seconds', 'retry_delay_seconds', 'max_retries'] as const

function shownRetry(retry: RetryPolicy) {
  return {
    retry_backoff_seconds: retry.kind === 'schedule' ? retry.delaysMs.map((ms) => ms / 1000) : null,
    retry_delay_seconds: retry.kind === 'fixed' ? retry.delayMs / 1000 : null,
    max_retries: retry.failuresMax,
  }
}

/** A new schedule replaces the delay and the failures allowed; a new delay replaces the schedule. */
function keptRetry(retry: RetryPolicy, change: Options): Options {
  const { retry_backoff_seconds: schedule, retry_delay_seconds: delay } = change
  if (schedule != null) return {}
  const shown = shownRetry(retry)
  if (retry.kind === 'schedule' && schedule === undefined && delay == null)
    return { retry_backoff_seconds: shown.retry_backoff_seconds }
  return {
    ...(retry.kind === 'fixed' && { retry_delay_seconds: shown.retry_delay_seconds }),
    max_retries: shown.max_retries,
  }
}
