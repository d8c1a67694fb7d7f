import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { Cancelled, Hub, UnfinishedPage } from '../../hub.ts'
import * as manage from '../manage-schemas.ts'
import { type Answer, type Caller, defineRoute, type Route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { detailsOf, detailsText, filterOf } from './event-routes.ts'

const params = z.object({ id: schemas.eventId })
/** One call cancels as many as this; more take more calls. */
const cancelEventsMax = 1_000

/** What operators do to events. Each call is written to the admin log before anything is changed. */
export function manageRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/reset', name: 'resetEvent', scope: 'manage', params },
      query: z.strictObject({ reason: schemas.text(4000, 0).optional() }),
      summary: 'Take an event away from its workers',
      description: 'Leased deliveries wait again, whoever held them is fenced off, failures stay counted.',
      responses: {
        200: { description: 'The event, and how many deliveries were taken.', schema: manage.resetEvent },
      },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'LEASE_BUSY'],
      handle: async ({ params, query, caller }) => {
        const { reason = 'reset' } = query
        await detailsOf(hub, params.id, { logs: false })
        await record(hub, caller, 'event.reset', String(params.id), { reason })
        const reset = await hub.reset(params.id, reason)
        hub.pull.look()
        const details = await detailsOf(hub, params.id, { logs: false })
        return { status: 200, text: detailsText(details, `,"reset":${reset}`) }
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/{id}/cancel', name: 'cancelEvent', scope: 'manage', params },
      summary: 'Cancel what waits of an event',
      description: 'What is under way is told by heartbeat, and is not tried again.',
      body: { kind: 'json', schema: manage.cancelOneBody, isOptional: true },
      responses: { 200: { description: 'How many deliveries.', schema: manage.cancelled } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'CANCEL_UNFINISHED'],
      handle: async ({ params, body, caller }) => {
        const { reason = 'cancelled' } = body
        await detailsOf(hub, params.id, { logs: false })
        await record(hub, caller, 'event.cancel', String(params.id), { reason })
        return cancelledAnswer(await hub.cancel([params.id], reason), { event_id: params.id })
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/events/cancel', name: 'cancelEvents', scope: 'manage' },
      summary: 'Cancel what waits of all events that match',
      description: `Up to ${cancelEventsMax} events a call, oldest first. If \`more\` is true, call again with the same filter and \`next_cursor\` as \`cursor\`. Needs a filter or ids.`,
      body: {
        kind: 'json',
        schema: manage.cancelBody,
        example: { type: 'order.*', reason: 'wrong prices' },
      },
      responses: { 200: { description: 'How many deliveries.', schema: manage.cancelled } },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'CANCEL_UNFINISHED'],
      handle: async ({ body, caller }) => {
        const { reason = 'cancelled', ...filter } = body
        const { eventIds, nextCursor } = await chosen(hub, filter)
        await record(hub, caller, 'events.cancel', `${eventIds.length} events`, { reason, ...filter })
        const done = eventIds.length === 0 ? [] : await hub.cancel(eventIds, reason)
        const more = nextCursor !== null
        return cancelledAnswer(done, { more, ...(more && { next_cursor: nextCursor }) })
      },
    }),
  ]
}

/** Who did what, before it is done: what is not in the log was not done. */
export function record(
  hub: Hub,
  caller: Caller,
  action: string,
  target: string,
  details: object,
): Promise<void> {
  return hub.record({ actor: caller.name, action, target, details: { ...details }, remote: caller.remote })
}

type Filter = Omit<z.output<typeof manage.cancelBody>, 'reason'>

/** Only what is not finished can be cancelled, so a filter chooses only that. */
async function chosen(hub: Hub, { ids, cursor, ...query }: Filter): Promise<UnfinishedPage> {
  if (ids !== undefined) {
    const [other] = Object.keys({ ...query, ...(cursor !== undefined && { cursor }) })
    if (other === undefined) return { eventIds: [...new Set(ids)], nextCursor: null }
    throw new PosthornError('BAD_FIELD', {
      field: other,
      expected: 'left out where there are ids',
      value: 'given',
    })
  }
  if (Object.keys(query).length === 0) {
    throw new PosthornError('BAD_FIELD', {
      field: 'ids',
      expected: 'given where there is no filter',
      value: 'nothing',
    })
  }
  const { created_from: from, created_to: to, ...rest } = query
  const times = {
    created_from: from === undefined ? from : new Date(from),
    created_to: to === undefined ? to : new Date(to),
  }
  return hub.listUnfinished(filterOf({ ...rest, ...times, cursor, limit: cancelEventsMax }))
}

function cancelledAnswer(done: readonly Cancelled[], more: object): Answer {
  const told = done.filter((one) => one.told).length
  return { status: 200, json: { ...more, cancelled: done.length - told, told } }
}
