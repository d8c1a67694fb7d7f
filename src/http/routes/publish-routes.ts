import { z } from 'zod'
import type { NewEvent } from '../../domain/event.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub, Published } from '../../hub.ts'
import { eventText, toFields } from '../event-text.ts'
import * as schemas from '../publish-schemas.ts'
import { readEvent, readEvents } from '../read-event.ts'
import { type Call, defineRoute, type Route } from '../route.ts'

const eventBytesMax = 1_048_576 + 65_536
const batchBytesMax = 32 * 1_048_576

const publishErrors = [
  'BAD_EVENT',
  'BAD_PAYLOAD',
  'PAYLOAD_TOO_LARGE',
  'IDEMPOTENCY_MISMATCH',
  'QUEUE_FULL',
  'QUEUE_DRAINING',
  'QUEUE_ELSEWHERE',
] as const

const headers = {
  'Idempotency-Replayed': '`true`: all events had been stored before, and this is the first answer again',
  'Posthorn-Backpressure': 'The names of queues at or above their high watermark: publish more slowly',
}

/** Publishing: the route parses the request, and then makes the same call as the library. */
export function publishRoutes(hub: Hub): Route[] {
  return [
    defineRoute('POST /events', 'publishEvent', 'publish', {
      summary: 'Publish an event',
      description:
        'Stores the event and its deliveries in one transaction, and answers once they are durable. Calls that arrive together share a commit. ' +
        'Send `Idempotency-Key` (or `X-Idempotency-Key`) to repeat the call safely: the same bytes get the first answer again. ' +
        'CloudEvents are read in structured, binary and batch mode; their `source` and `id` are the idempotency key.',
      body: {
        kind: 'bytes',
        bytesMax: eventBytesMax,
        contents: {
          'application/json': { schema: schemas.newEvent, example: examples.work },
          'application/cloudevents+json': { schema: schemas.cloudEvent, example: examples.cloudEvent },
          'application/cloudevents-batch+json': {
            schema: schemas.cloudEvents,
            bytesMax: batchBytesMax,
          },
        },
      },
      responses: {
        201: {
          description:
            'The event is stored, also as work, since it has tags; or all events of a CloudEvents batch are stored.',
          schema: z.union([schemas.storedEvent, schemas.storedBatch]),
          headers,
        },
        202: {
          description: 'The event is stored for the subscriptions that match its type.',
          schema: schemas.storedEvent,
          headers,
        },
      },
      errors: [...publishErrors, 'KEY_HELD'],
      handle: (call) => {
        if (/^application\/cloudevents-batch\+json/i.test(call.request.headers['content-type'] ?? ''))
          return publishMany(hub, call)
        return publishOne(hub, call)
      },
    }),
    defineRoute('POST /events/batch', 'publishEvents', 'publish', {
      summary: 'Publish up to 1,000 events: all of them or none',
      description:
        'The events keep their order. The body may also be a bare array. Each event may have its own `idempotency_key`; the header does not apply to a batch.',
      body: {
        kind: 'bytes',
        bytesMax: batchBytesMax,
        contents: {
          'application/json': { schema: schemas.batch, example: { events: [examples.work, examples.fact] } },
          'application/cloudevents-batch+json': { schema: schemas.cloudEvents },
        },
      },
      responses: { 201: { description: 'All events are stored.', schema: schemas.storedBatch, headers } },
      errors: publishErrors,
      handle: (call) => publishMany(hub, call),
    }),
  ]
}

type PublishCall = Pick<Call<unknown, unknown, unknown>, 'bytes' | 'caller' | 'request'>

async function publishOne(hub: Hub, { bytes, caller, request }: PublishCall) {
  const event = readEvent({ headers: request.headers, body: bytes, scope: caller.id })
  const { published } = await hub.publisher.publishParsed(event, 'elsewhere')
  if (published.conflict) {
    throw new PosthornError('IDEMPOTENCY_MISMATCH', { key: event.idempotencyKey, eventId: published.id })
  }
  return {
    status: event.tags === null ? 202 : 201,
    text: published.replayed
      ? await replayedText(hub, event, published)
      : await publishedText(hub, event, published),
    headers: headersOf([published]),
  }
}

async function publishMany(hub: Hub, { bytes, caller, request }: PublishCall) {
  const events = readEvents({ headers: request.headers, body: bytes, scope: caller.id })
  const { published } = await hub.publisher.publishAllParsed(events, 'elsewhere')
  const texts = await Promise.all(
    events.map((event, place) => publishedText(hub, event, published[place] as Published)),
  )
  return { status: 201, text: `{"events":[${texts.join(',')}]}`, headers: headersOf(published) }
}

function headersOf(published: readonly Published[]): Record<string, string> {
  const pressed = new Set(published.flatMap((one) => one.pressed))
  return {
    ...(published.every(({ replayed }) => replayed) && { 'idempotency-replayed': 'true' }),
    ...(pressed.size > 0 && { 'posthorn-backpressure': [...pressed].join(', ') }),
  }
}

/** The event as it was when it was stored, so that a repeat gets the same answer. */
async function publishedText(hub: Hub, event: NewEvent, published: Published): Promise<string> {
  // The event is stored, so a database that goes away now must not turn the answer into an error.
  const maxRetries = event.maxRetries ?? (await hub.subscribers.failuresMax(published.owed).catch(() => null))
  return answerText(event, published, maxRetries)
}

/** A repeat may lack the trace of the first request, and the limit of failures may have changed: the stored event has both. */
async function replayedText(hub: Hub, event: NewEvent, published: Published): Promise<string> {
  const first = await hub.event(published.id)
  if (first === undefined) {
    // Retention has removed the event; its audit records name the subscriptions.
    return publishedText(hub, event, { ...published, owed: await hub.retention.formerOwed(published.id) })
  }
  const { traceparent, attributes } = first.event
  return answerText(
    { ...event, traceparent, attributes: attributes === null ? null : JSON.stringify(attributes) },
    published,
    event.maxRetries ?? first.progress.maxRetries,
  )
}

function answerText(event: NewEvent, published: Published, maxRetries: number | null): string {
  const { id, owed, unwanted, createdAt, endsAt } = published
  const status = owed.length > 0 ? 'PENDING' : unwanted ? 'FAILED' : 'COMPLETED'
  const standing = { status, retryCount: 0, maxRetries, nextRetryAt: null, updatedAt: createdAt } as const
  const stored = endsAt === null ? event : { ...event, expiresAt: endsAt.toISOString() }
  return eventText(toFields(stored, id, createdAt), standing, ',"durability":"durable"')
}

const examples = {
  work: {
    title: 'Send Email Notification',
    description: 'Send welcome email to new user',
    tags: 'email,priority-high,notification',
    payload: { user_id: 12345, email: 'user@example.com', template: 'welcome' },
  },
  fact: { type: 'order.created', ordering_key: 'customer-7', payload: { order: 42, total: '19.90' } },
  cloudEvent: {
    specversion: '1.0',
    type: 'order.created',
    source: '/shop',
    id: 'A-1',
    partitionkey: 'customer-7',
    data: { order: 42 },
  },
}
