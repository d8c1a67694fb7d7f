import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { DeliveryAttempt, DeliveryDetails, Hub, ListedDelivery } from '../../hub.ts'
import * as schemas from '../delivery-schemas.ts'
import { linkTo, searchFieldsOf } from '../page.ts'
import { type Answer, type Call, defineRoute, type Route } from '../route.ts'
import { record } from './manage.ts'

const params = z.object({ id: z.uuid() })
type ListCall = Call<unknown, z.output<typeof schemas.deliveryQuery>, unknown>

/** Single deliveries: what became of each, and what operators do about it. */
export function deliveryRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/deliveries', name: 'listDeliveries', scope: 'read' },
      query: schemas.deliveryQuery,
      summary: 'List deliveries',
      description:
        'By event, then by subscriber. One call does bounded work: where few deliveries match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` goes on from there.',
      responses: {
        200: {
          description: 'A page.',
          schema: schemas.deliveryList,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'NOT_FOUND'],
      handle: (call) => list(hub, call),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/deliveries/{id}', name: 'getDelivery', scope: 'read', params },
      summary: 'Get a delivery with every attempt',
      description:
        'Of webhooks each with its request, response and timings. Of more than 100 attempts the newest are shown.',
      responses: { 200: { description: 'It.', schema: schemas.deliveryDetails } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: ({ params }) => details(hub, params.id),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/deliveries/{id}/retry', name: 'retryDelivery', scope: 'manage', params },
      summary: 'Try a delivery again now',
      description:
        'One that waits for its next attempt is due at once, its failures stay counted. One among the dead letters gets a fresh budget.',
      body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
      responses: { 200: { description: 'As it is now.', schema: schemas.deliveryDetails } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'NOT_RETRYABLE'],
      handle: async ({ params, caller }) => {
        await detailsOf(hub, params.id)
        await record(hub, caller, 'delivery.retry', params.id, {})
        await hub.deliveries.retry(params.id, caller.name)
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/deliveries/{id}/bury', name: 'buryDelivery', scope: 'manage', params },
      summary: 'Move a delivery that waits to the dead letters',
      description:
        'At the head of a lane it counts like any burial: the lane goes on, or stops with `on_exhausted: "block"`. From behind the head it is taken without stopping the lane.',
      body: { kind: 'json', schema: schemas.buryBody, isOptional: true },
      responses: { 200: { description: 'As it is now.', schema: schemas.deliveryDetails } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'NOT_WAITING', 'STILL_MOVING'],
      handle: async ({ params, body, caller }) => {
        await detailsOf(hub, params.id)
        await record(hub, caller, 'delivery.bury', params.id, body)
        await hub.deliveries.bury(params.id, { reason: body.reason, by: caller.name })
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
  ]
}

async function list(hub: Hub, { query, request }: ListCall): Promise<Answer> {
  const { event_id: eventId, subscriber, status, picked_before: pickedBefore } = query
  const { limit = 20, offset = 0, order, cursor } = query
  if (pickedBefore !== undefined && status !== undefined && status !== 'delivering') {
    const expected = 'delivering with picked_before'
    throw new PosthornError('BAD_FIELD', { field: 'status', expected, value: status })
  }
  const page = await hub.deliveries.list({
    ...{ limit, offset },
    ...(eventId !== undefined && { eventId }),
    ...(subscriber !== undefined && { subscription: await hub.deliveries.subscriber(subscriber) }),
    ...(status !== undefined && { status }),
    ...(pickedBefore !== undefined && { pickedBefore }),
    ...(order !== undefined && { order }),
    ...(cursor !== undefined && { cursor }),
  })
  const { deliveries, nextCursor, ...found } = page
  return {
    status: 200,
    json: {
      deliveries: deliveries.map(wireOf),
      ...searchFieldsOf(found),
      limit,
      offset,
      ...(nextCursor !== null && { next_cursor: nextCursor }),
    },
    ...(nextCursor !== null && { headers: linkTo(request.url, nextCursor) }),
  }
}

async function details(hub: Hub, id: string): Promise<Answer> {
  const delivery = await detailsOf(hub, id)
  const { lane, attemptList, isTruncated } = delivery
  return {
    status: 200,
    json: {
      ...wireOf(delivery),
      lane: lane === null ? null : { ordering_key: lane.orderingKey, sequence: lane.sequence },
      attempts: attemptList.map(attemptOf),
      ...(isTruncated && { attempts_truncated: true }),
    },
  }
}

async function detailsOf(hub: Hub, id: string): Promise<DeliveryDetails> {
  const delivery = await hub.deliveries.get(id)
  if (delivery === undefined) throw new PosthornError('NOT_FOUND', { what: 'delivery', id })
  return delivery
}

function wireOf(delivery: ListedDelivery): object {
  const { id, eventId, eventType, subscriptionId, name, via, status, attempts, failures, nextAt } = delivery
  return {
    ...{ id, event_id: eventId, event_type: eventType, subscriber_id: subscriptionId, subscriber: name, via },
    ...{ status, attempt_count: attempts, failures, next_try_at: nextAt, worker_id: delivery.worker },
    ...{ lastError: delivery.lastError, lastErrorTime: delivery.lastErrorAt },
    processingStartTime: delivery.leasedAt,
    ...{ created_at: delivery.createdAt, updated_at: delivery.updatedAt },
  }
}

function attemptOf(attempt: DeliveryAttempt): object {
  const { number, settlement, worker, startedAt, finishedAt, executionMs, statusCode, errorClass } = attempt
  const { error, nextAt, request, response, timings } = attempt
  return {
    ...{ number, settlement, worker_id: worker, started_at: startedAt, finished_at: finishedAt },
    ...{ execution_ms: executionMs, status_code: statusCode, error_class: errorClass, error },
    ...{ next_try_at: nextAt, request, response, timings },
  }
}
