import { z } from 'zod'
import { laneStatuses } from '../../domain/lane-summary.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub, LaneDetails } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import { cursor } from '../delivery-schemas.ts'
import { given } from '../given.ts'
import { linkTo, pageResponse } from '../page-answer.ts'
import { readStorable } from '../read-request.ts'
import { defineRoute, emptyBody, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import { answerObject, text, time, whole } from '../schemas.ts'
import { recordAction } from './record-action.ts'

const laneParams = z.object({
  id: z.uuid(),
  key: text(255).describe('The ordering key, percent-encoded; `-` if the parameter `key` names the lane.'),
})
const laneQuery = z.strictObject({
  key: text(255)
    .optional()
    .describe('The ordering key, if it cannot stand in a path: clients take `.` and `..` there for folders.'),
})
const lane = answerObject('Lane', {
  ordering_key: z.string(),
  status: z
    .enum(laneStatuses)
    .describe(
      '`blocked`: the lane stopped at a buried head. `retrying`: its head waits for another attempt. `delivering`: a worker has its head. `waiting`: its head waits for the first attempt.',
    ),
  head_event_id: z.int(),
  head_delivery_id: z.uuid().nullable(),
  waiting: z.int().describe('Deliveries behind the head.'),
  waiting_is_least: z.literal(true).optional().describe('True: `waiting` was not counted to the end.'),
  since: time.nullable(),
  next_try_at: time.nullable(),
  last_error: z.string().nullable(),
  summary: z.string(),
})
const lanes = answerObject('Lanes', {
  lanes: z.array(lane),
  limit: z.int(),
  next_cursor: z
    .string()
    .optional()
    .describe(
      'Send it as `cursor` to get the next page. A call looks at 50,000 lanes, so a page may be short and still have a next page.',
    ),
})
const laneDone = answerObject('LaneDone', {
  ordering_key: z.string(),
  event_id: z.int().describe('The event that was at the head of the lane.'),
  done: z.enum(['retried', 'skipped', 'discarded']),
})

const verbs = {
  retry: {
    done: 'retried',
    summary: 'Retry the head of a lane',
    description:
      'A buried head starts over with no failures counted; a head that waits for a retry is due at once.',
  },
  skip: {
    done: 'skipped',
    summary: 'Skip the head of a lane',
    description: 'The head becomes a dead letter and the lane goes on, whatever `on_exhausted` says.',
  },
  discard: {
    done: 'discarded',
    summary: 'Discard the head of a lane',
    description: 'The delivery is cancelled and the lane goes on.',
  },
} as const

/** The lanes of a subscription, and what operators do to a lane that does not move. */
export function laneRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /subscribers/{id}/lanes', 'listLanes', 'manage', {
      params: z.object({ id: z.uuid() }),
      query: z.strictObject({
        status: z.enum(laneStatuses).optional(),
        limit: whole(1, 1000).optional(),
        cursor: cursor.optional(),
      }),
      summary: 'List the lanes of a subscription that are not empty',
      responses: { 200: pageResponse(lanes, 'A page of lanes, by ordering key.') },
      errors: ['BAD_OPTION'],
      handle: async ({ params, query: { status, limit = 20, cursor }, request }) => {
        const { name } = await hub.subscribers.get(params.id)
        const { lanes, nextCursor } = await hub.lanes.list(name, { limit, ...given({ status, cursor }) })
        const json = {
          lanes: lanes.map(laneJson),
          limit,
          ...(nextCursor !== null && { next_cursor: nextCursor }),
        }
        return { status: 200, json, headers: linkTo(request.url, nextCursor) }
      },
    }),
    defineRoute('GET /subscribers/{id}/lanes/{key}', 'getLane', 'manage', {
      params: laneParams,
      query: laneQuery,
      summary: 'Get a lane',
      responses: { 200: { description: 'The lane.', schema: lane } },
      handle: async ({ params, query }) => {
        const { name } = await hub.subscribers.get(params.id)
        const orderingKey = keyOf(params, query)
        const lane = await hub.lanes.get(name, orderingKey)
        if (lane === undefined) throw new PosthornError('NOT_FOUND', { what: 'lane', id: orderingKey })
        return { status: 200, json: laneJson(lane) }
      },
    }),
    ...(['retry', 'skip', 'discard'] as const).map((verb) => laneVerb(hub, verb)),
  ]
}

function laneVerb(hub: Hub, verb: keyof typeof verbs): Route {
  const { done, summary, description } = verbs[verb]
  return defineRoute(`POST /subscribers/{id}/lanes/{key}/${verb}`, `${verb}Lane`, 'manage', {
    params: laneParams,
    query: laneQuery,
    summary,
    description,
    body: emptyBody,
    responses: { 200: { description: 'What was done.', schema: laneDone } },
    errors: ['NOT_BLOCKED', 'STILL_MOVING', 'CANCEL_UNFINISHED'],
    handle: async ({ params, query, caller }) => {
      const { name } = await hub.subscribers.get(params.id)
      const orderingKey = keyOf(params, query)
      await recordAction(hub, caller, { action: `lane.${verb}`, target: `${name}/${orderingKey}` })
      const eventId = await hub.lanes.settleHead(name, orderingKey, verb, caller.name)
      hub.pull.look()
      return { status: 200, json: { ordering_key: orderingKey, event_id: eventId, done } }
    },
  })
}

/** The query may name the lane instead of the path; the path then has a dash in place of the key. */
function keyOf(params: { key: string }, query: { key?: string | undefined }): string {
  if (query.key === undefined) return readStorable('key', params.key)
  if (params.key === '-') return readStorable('key', query.key)
  throw badField('key', 'left out unless the path has - in its place', query.key)
}

const laneJson = writerOf(lane, ({ nextAt, waitingIsLeast }: LaneDetails) => ({
  next_try_at: nextAt,
  waiting_is_least: waitingIsLeast || undefined,
}))
