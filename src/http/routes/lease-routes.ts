import { z } from 'zod'
import { toStructured } from '../../cloudevents/write.ts'
import type { LeasedDelivery } from '../../domain/delivery.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub } from '../../hub.ts'
import { type LeaseTerms, leaseAttributes, leasedText } from '../event-text.ts'
import { cloudEvent, cloudEventBatch, cloudEventOut, type Format, format, formatOf } from '../format.ts'
import { readStorable, readTags } from '../read-request.ts'
import { type Answer, type Call, defineRoute, type Route } from '../route.ts'
import * as schemas from '../schemas.ts'

const subscribeQuery = z.strictObject({
  tags: schemas.tagsAsked
    .optional()
    .describe(
      'Any of these, separated by commas: up to 32, each of up to 100 characters. Required without `subscription`.',
    ),
  worker_id: schemas.workerId,
  subscription: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('A named pull subscription. Default: the work queue.'),
  limit: schemas.whole(1, 1000).optional().describe('With it the answer is an array.'),
  wait: schemas.whole(0, 60).optional().describe('Seconds to wait for something to come.'),
  lease: schemas
    .whole(1, 43_200)
    .optional()
    .describe("Seconds until the lease ends. Default: the subscription's."),
  begin: z
    .enum(['granted', 'reported'])
    .optional()
    .describe('`reported`: what is leased has not begun until the worker says so.'),
  format,
  suspects: schemas.flag().optional().describe('`false`: nothing whose last worker has vanished.'),
})
type SubscribeCall = Call<unknown, z.output<typeof subscribeQuery>, unknown>

/** Leasing. */
export function subscribeRoutes(hub: Hub): Route[] {
  const subscribe = {
    path: '/events/subscribe',
    scope: 'consume',
    query: subscribeQuery,
    summary: 'Lease work',
    description:
      'Leases what waits, oldest first, at most one event per ordering key. `wait` parks the call until something comes. ' +
      'A client that hangs up leaves no lease behind. `Accept: application/cloudevents+json` gives a CloudEvent, with `limit` a batch of them.',
    responses: {
      200: {
        description: 'One event, or an array with `limit`.',
        schema: z.union([schemas.leasedEvent, z.array(schemas.leasedEvent)]),
        otherContents: {
          'application/cloudevents+json': cloudEventOut,
          'application/cloudevents-batch+json': z.array(cloudEventOut),
        },
      },
      204: { description: 'Nothing waits.' },
    },
    errors: ['BAD_FIELD', 'NOT_FOUND'],
    handle: (call: SubscribeCall) => lease(hub, call),
  } as const
  return [
    defineRoute({ ...subscribe, method: 'GET', name: 'subscribe' }),
    defineRoute({ ...subscribe, method: 'POST', name: 'subscribePost' }),
    defineRoute({
      ...{
        method: 'HEAD',
        path: '/events/subscribe',
        name: 'subscribeHead',
        scope: 'consume',
        query: subscribeQuery.partial(),
      },
      summary: 'Leases nothing',
      responses: { 204: { description: 'Always.' } },
      handle: () => ({ status: 204 }),
    }),
  ]
}

async function lease(hub: Hub, { query, signal, request, stillAllowed }: SubscribeCall): Promise<Answer> {
  const { tags, subscription, limit, wait = 0, lease: seconds, begin = 'granted', suspects = true } = query
  if (tags === undefined && subscription === undefined) {
    throw new PosthornError('BAD_FIELD', {
      field: 'tags',
      expected: 'given without a subscription',
      value: 'nothing',
    })
  }
  const { subscription: found, runs } = await hub.pull.lease({
    subscription: subscription ?? 'work',
    tags: tags === undefined ? null : readTags(tags),
    workerId: readStorable('worker_id', query.worker_id),
    limit: limit ?? 1,
    leaseMs: seconds === undefined ? null : seconds * 1000,
    waitMs: wait * 1000,
    ...{ begins: begin, suspects, signal },
  })
  if (runs.length === 0) return { status: 204 }
  const terms = {
    subscription: found.name,
    maxRetries: found.retry.failuresMax,
    leaseMs: seconds === undefined ? found.leaseMs : seconds * 1000,
    status: begin === 'reported' ? ('PENDING' as const) : ('PROCESSING' as const),
  }
  const deliveries = runs.flatMap((run) => run.deliveries)
  // This is kept until the client is known to have its answer, so it must not keep payloads.
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
