import type { LeaseAttributeName } from '../cloudevents/attributes.ts'
import type { LeasedDelivery } from '../domain/delivery.ts'
import type { NewEvent } from '../domain/event.ts'
import { formatLeaseToken } from '../domain/lease-token.ts'
import type { StoredEventFields } from '../domain/stored-event.ts'
import type { EventDetails } from '../hub.ts'

/** The progress of an event, as answers show it. */
export type Standing = Omit<EventDetails['progress'], 'attempts'>

/** The fields of an event that lists have too. */
type ListedFields = Omit<StoredEventFields, 'payloadText' | 'maxRetries' | 'attributes'> & {
  readonly attributes?: StoredEventFields['attributes']
}

/**
 * An event as JSON text, not as an object, so that the payload goes out as the bytes that came in. `more` is the text of further
 * members, each with a comma before it.
 */
export function eventText(
  event: ListedFields & { readonly payloadText?: string },
  standing: Standing,
  more = '',
): string {
  const { payloadText } = event
  return (
    `{"id":${event.id},"type":${quote(event.type)},"title":${quote(event.title)},"description":${quote(event.description)}` +
    `,"tags":${quote(event.tags === null ? null : event.tags.join(','))},"status":"${standing.status}"` +
    (payloadText === undefined ? '' : `,"payload":${payloadText}`) +
    `,"ordering_key":${quote(event.orderingKey)}${rareText(event)}` +
    `,"retry_count":${standing.retryCount},"max_retries":${standing.maxRetries}` +
    `,"next_retry_at":${time(standing.nextRetryAt)},"created_at":${time(event.createdAt)}` +
    `,"updated_at":${time(standing.updatedAt)}${more}}`
  )
}

export interface LeaseTerms {
  readonly subscription: string
  /** The limit of the subscription. In the work queue the limit of the event counts, if it has one. */
  readonly maxRetries: number
  readonly leaseMs: number
  /** `PENDING`: leased, but not begun until the worker reports the start. */
  readonly status: 'PROCESSING' | 'PENDING'
}

/** A leased event, with all that a worker needs to settle it. */
export function leasedText(
  delivery: LeasedDelivery,
  { subscription, maxRetries, leaseMs, status }: LeaseTerms,
): string {
  const { run, event, attempt, failures } = delivery
  const token = formatLeaseToken({ ...run, runId: run.id, lane: run.laneKey !== null })
  const standing = {
    status,
    nextRetryAt: null,
    retryCount: failures,
    maxRetries: (run.subscription === 0 ? event.maxRetries : null) ?? maxRetries,
    updatedAt: new Date(run.leasedUntil.getTime() - leaseMs),
  }
  return eventText(
    event,
    standing,
    `,"lease_token":"${token}","lease_expires_at":${time(run.leasedUntil)},"attempt":${attempt}` +
      `,"subscription":${quote(subscription)}${run.suspect ? ',"suspect":true' : ''}`,
  )
}

/** The same as attributes of a CloudEvent, whose names are lower case letters and digits. */
export function leaseAttributes(
  { run, attempt, failures }: LeasedDelivery,
  subscription: string,
): Record<LeaseAttributeName, string | number> {
  return {
    leasetoken: formatLeaseToken({ ...run, runId: run.id, lane: run.laneKey !== null }),
    leaseexpires: run.leasedUntil.toISOString(),
    attempt,
    retrycount: failures,
    subscription,
  }
}

/** The fields of an event as it was stored: a repeat with the same idempotency key gets the same. */
export function toFields(
  event: NewEvent,
  id: number,
  createdAt: Date,
): ListedFields & { payloadText: string } {
  return {
    ...event,
    id,
    createdAt,
    timestamp: toDate(event.timestamp),
    runAt: toDate(event.runAt),
    expiresAt: toDate(event.expiresAt),
    attributes: event.attributes === null ? null : JSON.parse(event.attributes),
  }
}

function rareText(event: ListedFields): string {
  const { concurrencyKey, version, source, timestamp, correlationId, causationId, traceparent } = event
  const { runAt, expiresAt, attributes } = event
  let text = ''
  if (concurrencyKey !== null) text += `,"concurrency_key":${quote(concurrencyKey)}`
  if (version !== null) text += `,"version":${quote(version)}`
  if (source !== null) text += `,"source":${JSON.stringify(source)}`
  if (timestamp !== null) text += `,"timestamp":${time(timestamp)}`
  if (correlationId !== null) text += `,"correlation_id":${quote(correlationId)}`
  if (causationId !== null) text += `,"causation_id":${quote(causationId)}`
  if (traceparent !== null) text += `,"traceparent":${quote(traceparent)}`
  if (runAt !== null) text += `,"run_at":${time(runAt)}`
  if (expiresAt !== null) text += `,"expires_at":${time(expiresAt)}`
  if (attributes != null) text += `,"attributes":${JSON.stringify(attributes)}`
  return text
}

function quote(text: string | null): string {
  return text === null ? 'null' : JSON.stringify(text)
}

function time(at: Date | null): string {
  return at === null ? 'null' : `"${at.toISOString()}"`
}

function toDate(text: string | null): Date | null {
  return text === null ? null : new Date(text)
}
