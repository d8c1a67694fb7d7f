import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { DeliveryAttempt, DeliveryDetails, Hub, ListedDelivery } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import * as schemas from '../delivery-schemas.ts'
import { given } from '../given.ts'
import { pageAnswer, pageResponse, pagingOf } from '../page-answer.ts'
import { type Answer, type Call, defineRoute, emptyBody, type Route } from '../route.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: z.uuid() })
type ListCall = Call<unknown, z.output<typeof schemas.deliveryQuery>, unknown>

/** Single deliveries: what became of each, and what operators do to it. */
export function deliveryRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /deliveries', 'listDeliveries', 'read', {
      query: schemas.deliveryQuery,
      summary: 'List deliveries',
      description:
        'By event, then by subscription. One call does bounded work: where few match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` continues from there.',
      responses: {
        200: pageResponse(schemas.deliveryList, 'A page of deliveries.'),
      },
      errors: ['BAD_OPTION', 'NOT_FOUND'],
      handle: (call) => list(hub, call),
    }),
    defineRoute('GET /deliveries/{id}', 'getDelivery', 'read', {
      params,
      summary: 'Get a delivery with every attempt',
      description:
        'For webhooks each attempt has its request, response and timings. At most the newest 100 attempts are shown.',
      responses: { 200: { description: 'The delivery.', schema: schemas.deliveryDetails } },
      handle: ({ params }) => details(hub, params.id),
    }),
    defineRoute('POST /deliveries/{id}/retry', 'retryDelivery', 'manage', {
      params,
      summary: 'Retry a delivery now',
      description:
        'A delivery that waits for its next attempt is due at once, and its failures stay counted. A dead letter starts over with no failures counted.',
      body: emptyBody,
      responses: { 200: { description: 'The delivery as it is now.', schema: schemas.deliveryDetails } },
      errors: ['NOT_RETRYABLE'],
      handle: async ({ params, caller }) => {
        await detailsOf(hub, params.id)
        await recordAction(hub, caller, { action: 'delivery.retry', target: params.id })
        await hub.deliveries.retry(params.id, caller.name)
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
    defineRoute('POST /deliveries/{id}/bury', 'buryDelivery', 'manage', {
      params,
      summary: 'Bury a waiting delivery: make it a dead letter',
      description:
        'If the delivery is the head of its lane, the lane goes on, or with `on_exhausted: "block"` stops. If it is behind the head, the lane is not affected.',
      body: { kind: 'json', schema: schemas.buryBody, isOptional: true },
      responses: { 200: { description: 'The delivery as it is now.', schema: schemas.deliveryDetails } },
      errors: ['NOT_WAITING', 'STILL_MOVING'],
      handle: async ({ params, body, caller }) => {
        await detailsOf(hub, params.id)
        await recordAction(hub, caller, { action: 'delivery.bury', target: params.id, details: body })
        await hub.deliveries.bury(params.id, { reason: body.reason, by: caller.name })
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
  ]
}

async function list(hub: Hub, { query, request }: ListCall): Promise<Answer> {
  const { event_id: eventId, subscriber, status, picked_before: pickedBefore } = query
  if (pickedBefore !== undefined && status !== undefined && status !== 'delivering') {
    const expected = 'delivering with picked_before'
    throw new PosthornError('BAD_FIELD', { field: 'status', expected, value: status })
  }
  const subscription = subscriber === undefined ? undefined : await hub.deliveries.subscriber(subscriber)
  const filter = given({ eventId, subscription, status, pickedBefore })
  const page = await hub.deliveries.list({ ...pagingOf(query), ...filter })
  return pageAnswer({ deliveries: page.deliveries.map(deliveryJson) }, { query, url: request.url, page })
}

async function details(hub: Hub, id: string): Promise<Answer> {
  const delivery = await detailsOf(hub, id)
  const { lane, attemptList, isTruncated } = delivery
  return {
    status: 200,
    json: {
      ...deliveryJson(delivery),
      lane: lane === null ? null : { ordering_key: lane.orderingKey, sequence: lane.sequence },
      attempts: attemptList.map(attemptJson),
      ...(isTruncated && { attempts_truncated: true }),
    },
  }
}

async function detailsOf(hub: Hub, id: string): Promise<DeliveryDetails> {
  const delivery = await hub.deliveries.get(id)
  if (delivery === undefined) throw new PosthornError('NOT_FOUND', { what: 'delivery', id })
  return delivery
}

const deliveryJson = writerOf(
  schemas.listedDelivery,
  ({ subscriptionId, name, attempts, nextAt, worker, lastErrorAt, leasedAt }: ListedDelivery) => ({
    subscriber_id: subscriptionId,
    subscriber: name,
    attempt_count: attempts,
    next_try_at: nextAt,
    worker_id: worker,
    lastErrorTime: lastErrorAt,
    processingStartTime: leasedAt,
  }),
)

const attemptJson = writerOf(schemas.attempt, ({ worker, nextAt }: DeliveryAttempt) => ({
  worker_id: worker,
  next_try_at: nextAt,
}))
