import { z } from 'zod'
import type { Hub } from '../../hub.ts'
import { linkTo, pageFieldsOf, pagingOf } from '../list-page.ts'
import * as schemas from '../queue-schemas.ts'
import { checkpointOnWire, queueText, recoveryOnWire } from '../queue-text.ts'
import { defineRoute, type Route, type RouteResponse } from '../route.ts'
import { record } from './event-action-routes.ts'

const params = z.object({ id: schemas.queueId })
const link = { link: 'rel="next": the next page' }
const current: RouteResponse = { description: 'As it is now.', schema: schemas.queue }

const verbs = {
  pause: {
    summary: 'Begin no more attempts',
    description:
      'Within a second, in every process; attempts under way end. What is owed to it is stored and held.',
  },
  resume: { summary: 'Let it go on', description: 'Also after a drain: what was held meanwhile follows.' },
  drain: {
    summary: 'Finish what waits, and take nothing new',
    description:
      '`drained_at` says when that is done. An event that is owed to nobody else is refused with 409; what others want too is held for it until it is resumed.',
  },
} as const

/** Queues are named by their subscriptions. */
export function queueRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/queues', name: 'listQueues', scope: 'read', query: schemas.queuesQuery },
      summary: 'List queues with their state',
      responses: {
        200: { description: 'The oldest first, unless `order=desc`.', schema: schemas.queues, headers: link },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ query: { events, ...query }, request }) => {
        const shown = events === undefined ? {} : { eventsMax: events }
        const { queues, total, nextCursor } = await hub.queues.list(pagingOf(query), shown)
        const page = JSON.stringify(pageFieldsOf(query, { total, nextCursor })).slice(1)
        const text = `{"queues":[${queues.map(queueText).join(',')}],${page}`
        return { status: 200, text, headers: linkTo(request.url, nextCursor) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/queues/{id}', name: 'getQueue', scope: 'read', params },
      query: schemas.queueQuery,
      summary: 'Get a queue with a page of its events',
      description:
        'Events: first what is being attempted or can be, by age, then what waits behind in lanes. `limit` (100) and `cursor` page through them.',
      responses: { 200: { ...current, headers: link } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, query: { limit = 100, cursor }, request }) => {
        const queue = await hub.queues.get(params.id, { limit, cursor })
        return { status: 200, text: queueText(queue), headers: linkTo(request.url, queue.nextCursor) }
      },
    }),
    defineRoute({
      ...{ method: 'PATCH', path: '/queues/{id}/config', name: 'configureQueue', scope: 'manage', params },
      summary: 'Change how deep a queue may be and how it is worked off',
      description:
        'What is left out stays as it is, null takes a limit away. What a handler says of its queue counts again when it starts.',
      body: {
        ...{ kind: 'json', schema: schemas.configChange },
        example: { maxQueueDepth: 10_000, highWatermark: 8_000, on_full: 'refuse' },
      },
      responses: { 200: current },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, body, caller }) => {
        const { on_full: onFull, ...changes } = body
        const { name } = await hub.subscribers.current(params.id)
        await record(hub, caller, 'queue.config', name, body)
        const queue = await hub.queues.configure(name, { ...changes, onFull })
        return { status: 200, text: queueText(queue) }
      },
    }),
    ...(['pause', 'resume', 'drain'] as const).map((verb) => queueVerb(hub, verb)),
    defineRoute({
      ...{
        method: 'POST',
        path: '/queues/{id}/checkpoint',
        name: 'checkpointQueue',
        scope: 'manage',
        params,
      },
      summary: 'Record the state of a queue now',
      body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
      responses: { 201: { description: 'Recorded.', schema: schemas.checkpoint } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'QUEUE_ELSEWHERE'],
      handle: async ({ params, caller }) => {
        const { name } = await hub.subscribers.current(params.id)
        await record(hub, caller, 'queue.checkpoint', name, {})
        return { status: 201, json: checkpointOnWire(await hub.queues.checkpoint(name)) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/queues/{id}/checkpoints', name: 'listCheckpoints', scope: 'read', params },
      query: schemas.checkpointsQuery,
      summary: 'List the checkpoints of a queue',
      responses: {
        200: {
          description: 'The oldest first, unless `order=desc`.',
          schema: schemas.checkpoints,
          headers: link,
        },
      },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, query: { since, until, ...query }, request }) => {
        const times = { ...(since && { since }), ...(until && { until }) }
        const page = await hub.queues.checkpoints(params.id, { ...pagingOf(query), ...times })
        const { checkpoints, nextCursor } = page
        const json = {
          checkpoints: checkpoints.map(checkpointOnWire),
          ...pageFieldsOf(query, { nextCursor }),
        }
        return { status: 200, json, headers: linkTo(request.url, nextCursor) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/queues/{id}/recoveries', name: 'listRecoveries', scope: 'read', params },
      query: schemas.recoveriesQuery,
      summary: 'List what processes found unfinished in a queue when they started',
      responses: {
        200: {
          description: 'The oldest first, unless `order=desc`.',
          schema: schemas.recoveries,
          headers: link,
        },
      },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, query, request }) => {
        const { recoveries, nextCursor } = await hub.queues.recoveries(params.id, pagingOf(query))
        const json = { recoveries: recoveries.map(recoveryOnWire), ...pageFieldsOf(query, { nextCursor }) }
        return { status: 200, json, headers: linkTo(request.url, nextCursor) }
      },
    }),
  ]
}

function queueVerb(hub: Hub, verb: keyof typeof verbs): Route {
  return defineRoute({
    ...{ method: 'POST', path: `/queues/{id}/${verb}`, name: `${verb}Queue`, scope: 'manage', params },
    ...verbs[verb],
    body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
    responses: { 200: current },
    errors: ['NOT_FOUND', 'BAD_FIELD'],
    handle: async ({ params, caller }) => {
      const { name } = await hub.subscribers.current(params.id)
      await record(hub, caller, `queue.${verb}`, name, {})
      const queue = await hub.queues[verb](name)
      hub.pull.look()
      return { status: 200, text: queueText(queue) }
    },
  })
}
