import { z } from 'zod'
import type { Hub } from '../../hub.ts'
import { given } from '../given.ts'
import { linkTo, pageAnswer, pageFieldsOf, pageResponse, pagingOf, textPageAnswer } from '../page-answer.ts'
import * as schemas from '../queue-schemas.ts'
import { checkpointJson, queueText, recoveryJson } from '../queue-text.ts'
import { defineRoute, emptyBody, type Route, type RouteResponse } from '../route.ts'
import { pageQuery } from '../schemas.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: schemas.queueId })
const current: RouteResponse = { description: 'The queue as it is now.', schema: schemas.queue }

const verbs = {
  pause: {
    summary: 'Pause a queue',
    description:
      'Within a second no process begins another attempt; attempts under way end. New events for the queue are stored and held.',
  },
  resume: {
    summary: 'Resume a queue that is paused or draining',
    description: 'Events that were held meanwhile follow.',
  },
  drain: {
    summary: 'Finish what waits in a queue, and take nothing new',
    description:
      '`drained_at` says when everything that waited is finished. An event for this queue alone is refused with 409; an event that other subscriptions receive too is held for this queue until it is resumed.',
  },
} as const

/** Queues: a queue is what a subscription has not finished, and bears the name of the subscription. */
export function queueRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /queues', 'listQueues', 'read', {
      query: schemas.queuesQuery,
      summary: 'List queues',
      responses: { 200: pageResponse(schemas.queues, 'A page of queues, oldest first unless `order=desc`.') },
      errors: ['BAD_OPTION'],
      handle: async ({ query: { events, ...query }, request }) => {
        const shown = given({ eventsMax: events })
        const { queues, total, nextCursor } = await hub.queues.list(pagingOf(query), shown)
        const fields = pageFieldsOf(query, { total, nextCursor })
        return textPageAnswer('queues', queues.map(queueText), { fields, url: request.url, nextCursor })
      },
    }),
    defineRoute('GET /queues/{id}', 'getQueue', 'read', {
      params,
      query: schemas.queueQuery,
      summary: 'Get a queue with a page of its events',
      description:
        'First the events that are being attempted or can be, oldest first; then those that wait behind others in lanes. `limit` (default 100) and `cursor` page through them.',
      responses: { 200: pageResponse(schemas.queue, current.description) },
      errors: ['BAD_OPTION'],
      handle: async ({ params, query: { limit = 100, cursor }, request }) => {
        const queue = await hub.queues.get(params.id, { limit, cursor })
        return { status: 200, text: queueText(queue), headers: linkTo(request.url, queue.nextCursor) }
      },
    }),
    defineRoute('PATCH /queues/{id}/config', 'configureQueue', 'manage', {
      params,
      summary: 'Change the limits of a queue',
      description:
        'A field that is left out stays as it is; null removes the limit. Limits that a handler sets in code apply again when its process starts.',
      body: {
        kind: 'json',
        schema: schemas.configChange,
        example: { maxQueueDepth: 10_000, highWatermark: 8_000, on_full: 'refuse' },
      },
      responses: { 200: current },
      errors: ['BAD_OPTION'],
      handle: async ({ params, body, caller }) => {
        const { on_full: onFull, ...changes } = body
        const { name } = await hub.subscribers.current(params.id)
        await recordAction(hub, caller, { action: 'queue.config', target: name, details: body })
        return { status: 200, text: queueText(await hub.queues.configure(name, { ...changes, onFull })) }
      },
    }),
    ...(['pause', 'resume', 'drain'] as const).map((verb) => queueVerb(hub, verb)),
    defineRoute('POST /queues/{id}/checkpoint', 'checkpointQueue', 'manage', {
      params,
      summary: 'Record how far a queue has come',
      body: emptyBody,
      responses: { 201: { description: 'The checkpoint.', schema: schemas.checkpoint } },
      errors: ['QUEUE_ELSEWHERE'],
      handle: async ({ params, caller }) => {
        const { name } = await hub.subscribers.current(params.id)
        await recordAction(hub, caller, { action: 'queue.checkpoint', target: name })
        return { status: 201, json: checkpointJson(await hub.queues.checkpoint(name)) }
      },
    }),
    defineRoute('GET /queues/{id}/checkpoints', 'listCheckpoints', 'read', {
      params,
      query: schemas.checkpointsQuery,
      summary: 'List the checkpoints of a queue',
      responses: {
        200: pageResponse(schemas.checkpoints, 'A page of checkpoints, oldest first unless `order=desc`.'),
      },
      errors: ['BAD_OPTION'],
      handle: async ({ params, query: { since, until, ...query }, request: { url } }) => {
        const filter = { ...pagingOf(query), ...given({ since, until }) }
        const page = await hub.queues.checkpoints(params.id, filter)
        const checkpoints = page.checkpoints.map(checkpointJson)
        return pageAnswer({ checkpoints }, { query, url, page: { nextCursor: page.nextCursor } })
      },
    }),
    defineRoute('GET /queues/{id}/recoveries', 'listRecoveries', 'read', {
      params,
      query: pageQuery,
      summary: 'List what processes found unfinished in a queue when they started',
      responses: {
        200: pageResponse(schemas.recoveries, 'A page of recoveries, oldest first unless `order=desc`.'),
      },
      errors: ['BAD_OPTION'],
      handle: async ({ params, query, request: { url } }) => {
        const page = await hub.queues.recoveries(params.id, pagingOf(query))
        const recoveries = page.recoveries.map(recoveryJson)
        return pageAnswer({ recoveries }, { query, url, page: { nextCursor: page.nextCursor } })
      },
    }),
  ]
}

function queueVerb(hub: Hub, verb: keyof typeof verbs): Route {
  return defineRoute(`POST /queues/{id}/${verb}`, `${verb}Queue`, 'manage', {
    ...verbs[verb],
    params,
    body: emptyBody,
    responses: { 200: current },
    handle: async ({ params, caller }) => {
      const { name } = await hub.subscribers.current(params.id)
      await recordAction(hub, caller, { action: `queue.${verb}`, target: name })
      const queue = await hub.queues[verb](name)
      hub.pull.look()
      return { status: 200, text: queueText(queue) }
    },
  })
}
