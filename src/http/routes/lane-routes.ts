import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { Hub, LaneDetails } from '../../hub.ts'
import * as schemas from '../lane-schemas.ts'
import { linkTo } from '../list-page.ts'
import { readStorable } from '../read-request.ts'
import { defineRoute, type Route } from '../route.ts'
import { record } from './event-action-routes.ts'

const params = z.object({ id: z.uuid() })
const laneParams = z.object({ id: z.uuid(), key: schemas.laneKey })

const verbs = {
  retry: {
    done: 'retried',
    summary: 'Try the head of a lane again',
    description: 'A buried head gets a fresh budget; one that waits for a retry is due at once.',
  },
  skip: {
    done: 'skipped',
    summary: 'Let a lane go on without its head, which is left to the dead letters',
    description: 'Whatever `on_exhausted` says.',
  },
  discard: {
    done: 'discarded',
    summary: 'Throw the head of a lane away, and let the lane go on',
    description: 'The delivery is cancelled.',
  },
} as const

/** What is in the lanes of a subscriber, and what operators do to those that do not move. */
export function laneRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/subscribers/{id}/lanes', name: 'listLanes', scope: 'manage', params },
      query: schemas.laneQuery,
      summary: 'List the lanes of a subscription that are not empty',
      responses: {
        200: {
          description: 'By ordering key.',
          schema: schemas.lanes,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, query, request }) => {
        const { name } = await hub.subscribers.get(params.id)
        const { status, limit = 20, cursor } = query
        const filter = { limit, ...(status && { status }), ...(cursor !== undefined && { cursor }) }
        const { lanes, nextCursor } = await hub.lanes.list(name, filter)
        return {
          status: 200,
          json: { lanes: lanes.map(wireOf), limit, ...(nextCursor !== null && { next_cursor: nextCursor }) },
          ...(nextCursor !== null && { headers: linkTo(request.url, nextCursor) }),
        }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/subscribers/{id}/lanes/{key}', name: 'getLane', scope: 'manage' },
      ...{ params: laneParams, query: schemas.oneLaneQuery },
      summary: 'Get a lane',
      responses: { 200: { description: 'The lane.', schema: schemas.lane } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params, query }) => {
        const { name } = await hub.subscribers.get(params.id)
        const orderingKey = keyOf(params, query)
        const lane = await hub.lanes.get(name, orderingKey)
        if (lane === undefined) throw new PosthornError('NOT_FOUND', { what: 'lane', id: orderingKey })
        return { status: 200, json: wireOf(lane) }
      },
    }),
    ...(['retry', 'skip', 'discard'] as const).map((verb) => laneVerb(hub, verb)),
  ]
}

function laneVerb(hub: Hub, verb: keyof typeof verbs): Route {
  const { done, summary, description } = verbs[verb]
  return defineRoute({
    ...{
      method: 'POST',
      path: `/subscribers/{id}/lanes/{key}/${verb}`,
      name: `${verb}Lane`,
      scope: 'manage',
    },
    ...{ params: laneParams, query: schemas.oneLaneQuery, summary, description },
    body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
    responses: { 200: { description: 'What was done.', schema: schemas.laneDone } },
    errors: ['NOT_FOUND', 'BAD_FIELD', 'NOT_BLOCKED', 'STILL_MOVING', 'CANCEL_UNFINISHED'],
    handle: async ({ params, query, caller }) => {
      const { name } = await hub.subscribers.get(params.id)
      const orderingKey = keyOf(params, query)
      await record(hub, caller, `lane.${verb}`, `${name}/${orderingKey}`, {})
      const eventId = await hub.lanes.settleHead(name, orderingKey, verb, caller.name)
      hub.pull.look()
      return { status: 200, json: { ordering_key: orderingKey, event_id: eventId, done } }
    },
  })
}

/** A parameter may name the lane instead of the path, which then has a dash in the lane's place. */
function keyOf(params: { key: string }, query: { key?: string | undefined }): string {
  if (query.key === undefined) return readStorable('key', params.key)
  if (params.key === '-') return readStorable('key', query.key)
  const details = { field: 'key', expected: 'left out unless the path has - in its place', value: query.key }
  throw new PosthornError('BAD_FIELD', details)
}

function wireOf(lane: LaneDetails): object {
  const { orderingKey, status, headEventId, headDeliveryId, waiting, waitingIsLeast } = lane
  return {
    ...{ ordering_key: orderingKey, status, head_event_id: headEventId, head_delivery_id: headDeliveryId },
    ...{ waiting, ...(waitingIsLeast && { waiting_is_least: true }) },
    ...{ since: lane.since, next_try_at: lane.nextAt, last_error: lane.lastError, summary: lane.summary },
  }
}
