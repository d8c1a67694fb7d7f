import { z } from 'zod'
import { toStructured } from '../../cloudevents/write.ts'
import type { LeasedDelivery } from '../../domain/delivery.ts'
import type { Hub } from '../../hub.ts'
import { type LeaseTerms, leaseAttributes, leasedText } from '../event-text.ts'
import { cloudEvent, cloudEventBatch, cloudEventOut, type Format, format, formatOf } from '../format.ts'
import { readStorable, readTags } from '../read-request.ts'
import { type Answer, type Call, defineRoute, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import * as schemas from '../schemas.ts'

const subscribeQuery = z.strictObject({
  tags: schemas.tagsAsked
    .optional()
    .describe(
      'Only events with any of these tags, separated by commas: up to 32 tags of up to 100 characters each. Required without `subscription`.',
    ),
  worker_id: schemas.workerId,
  subscription: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('The name of a pull subscription. Default: the work queue.'),
  limit: schemas
    .whole(1, 1000)
    .optional()
    .describe('The most events to lease. If it is given, the answer is an array.'),
  wait: schemas.whole(0, 60).optional().describe('How long to wait for an event, in seconds. Default 0.'),
  lease: schemas
    .whole(1, 43_200)
    .optional()
    .describe('How long the lease lasts, in seconds. Default: as the subscription says.'),
  begin: z
    .enum(['granted', 'reported'])
    .optional()
    .describe(
      '`granted` (the default): the attempt begins with the lease. `reported`: it begins when the worker reports the start.',
    ),
  format,
  suspects: schemas.flag().optional().describe('`false`: lease no event whose last worker has vanished.'),
})
type SubscribeCall = Call<unknown, z.output<typeof subscribeQuery>, unknown>

/** Leasing deliveries to workers elsewhere. */
export function leaseRoutes(hub: Hub): Route[] {
  const subscribe = {
    query: subscribeQuery,
    summary: 'Lease events',
    description:
      'Leases the oldest waiting events, at most one for each ordering key. With `wait` the call waits until an event arrives. ' +
      'If the client disconnects, its leases are handed back. `Accept: application/cloudevents+json` returns a CloudEvent, or with `limit` a batch of CloudEvents.',
    responses: {
      200: {
        description: 'The leased event; with `limit` an array of leased events.',
        schema: z.union([schemas.leasedEvent, z.array(schemas.leasedEvent)]),
        otherContents: {
          'application/cloudevents+json': cloudEventOut,
          'application/cloudevents-batch+json': z.array(cloudEventOut),
        },
      },
      204: { description: 'No event waits.' },
    },
    errors: ['BAD_FIELD', 'NOT_FOUND'],
    handle: (call: SubscribeCall) => lease(hub, call),
  } as const
  return [
    defineRoute('GET /events/subscribe', 'subscribe', 'consume', subscribe),
    defineRoute('POST /events/subscribe', 'subscribePost', 'consume', subscribe),
    defineRoute('HEAD /events/subscribe', 'subscribeHead', 'consume', {
      query: subscribeQuery.partial(),
      summary: 'Do nothing: a HEAD request leases no event',
      responses: { 204: { description: 'Always.' } },
      handle: () => ({ status: 204 }),
    }),
  ]
}

async function lease(hub: Hub, { query, signal, request, stillAllowed }: SubscribeCall): Promise<Answer> {
  const { tags, subscription, limit, wait = 0, lease: seconds, begin = 'granted', suspects = true } = query
  if (tags === undefined && subscription === undefined) {
    throw badField('tags', 'given without a subscription', undefined)
  }
  const { subscription: found, runs } = await hub.pull.lease({
    subscription: subscription ?? 'work',
    tags: tags === undefined ? null : readTags(tags),
    workerId: readStorable('worker_id', query.worker_id),
    limit: limit ?? 1,
    leaseMs: seconds === undefined ? null : seconds * 1000,
    waitMs: wait * 1000,
    begins: begin,
    suspects,
    signal,
  })
  if (runs.length === 0) return { status: 204 }
  const terms = {
    subscription: found.name,
    maxRetries: found.retry.failuresMax,
    leaseMs: seconds === undefined ? found.leaseMs : seconds * 1000,
    status: begin === 'reported' ? ('PENDING' as const) : ('PROCESSING' as const),
  }
  const deliveries = runs.flatMap((run) => run.deliveries)
  // Kept until the client is known to have the answer, so it must not hold on to payloads.
  const leases = runs.map(({ id, token }) => ({ id, token }))
  const undelivered = () => hub.pull.handBack(leases)
  try {
    if (wait > 0) await stillAllowed()
    const format = formatOf(request, query.format)
    return { ...answerOf(deliveries, { format, terms, isList: limit !== undefined }), undelivered }
  } catch (error) {
    await undelivered()
    throw error
  }
}

interface Shape {
  readonly format: Format
  readonly terms: LeaseTerms
  readonly isList: boolean
}

function answerOf(deliveries: readonly LeasedDelivery[], { format, terms, isList }: Shape): Answer {
  const [first] = deliveries as [LeasedDelivery]
  const attributes = (one: LeasedDelivery) => leaseAttributes(one, terms.subscription)
  if (format === 'json') {
    if (!isList) return { status: 200, text: leasedText(first, terms) }
    return { status: 200, text: `[${deliveries.map((one) => leasedText(one, terms)).join(',')}]` }
  }
  if (!isList) return cloudEvent(first.event, { format, extra: attributes(first) })
  return cloudEventBatch(deliveries.map((one) => toStructured(one.event, attributes(one))))
}
