import { z } from 'zod'
import { eventStatuses } from '../../domain/status.ts'
import type { Cancelled, Hub, UnfinishedPage } from '../../hub.ts'
import { dateOf, given } from '../given.ts'
import { type Answer, defineRoute, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import {
  answerObject,
  bodyObject,
  eventDetails,
  eventId,
  named,
  tagsFilter,
  text,
  time,
  typeFilter,
} from '../schemas.ts'
import { detailsOf, detailsText, filterOf } from './event-routes.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: eventId })
const reason = text(4000, 0).optional()
/** One call cancels at most this many events. */
const cancelEventsMax = 1_000

const resetEvent = named('ResetEvent', eventDetails.extend({ reset: z.int() }))
const cancelOneBody = bodyObject('CancelOne', { reason })
export const cancelBody = bodyObject('Cancel', {
  ids: z.array(z.int().min(1)).min(1).max(1000).optional(),
  status: z.enum(eventStatuses).optional(),
  type: typeFilter.optional(),
  tags: tagsFilter.optional(),
  ordering_key: text(255).optional(),
  created_from: time.optional(),
  created_to: time.optional(),
  cursor: z
    .string()
    .max(200)
    .optional()
    .describe('The `next_cursor` of the previous call, with the same filter.'),
  reason,
})
const cancelled = answerObject('Cancelled', {
  event_id: z.int().optional(),
  cancelled: z.int().describe('Deliveries that waited, and are cancelled now.'),
  told: z.int().describe('Deliveries under way; their workers learn of the cancellation by heartbeat.'),
  more: z.boolean().optional().describe('True: more events match, so call again with `next_cursor`.'),
  next_cursor: z
    .string()
    .optional()
    .describe('Given if `more` is true. Send it as `cursor`, with the same filter.'),
})

/** What operators do to events. */
export function eventActionRoutes(hub: Hub): Route[] {
  return [
    defineRoute('POST /events/{id}/reset', 'resetEvent', 'manage', {
      params,
      query: z.strictObject({ reason }),
      summary: 'Take an event from its workers',
      description:
        'Leased deliveries wait again, and the workers that held them can no longer settle them. Failures stay counted.',
      responses: {
        200: { description: 'The event, and how many deliveries were taken.', schema: resetEvent },
      },
      errors: ['LEASE_BUSY'],
      handle: async ({ params, query: { reason = 'reset' }, caller }) => {
        await detailsOf(hub, params.id, { logs: false })
        const target = String(params.id)
        await recordAction(hub, caller, { action: 'event.reset', target, details: { reason } })
        const reset = await hub.reset(params.id, reason)
        hub.pull.look()
        const details = await detailsOf(hub, params.id, { logs: false })
        return { status: 200, text: detailsText(details, `,"reset":${reset}`) }
      },
    }),
    defineRoute('POST /events/{id}/cancel', 'cancelEvent', 'manage', {
      params,
      summary: 'Cancel the unfinished deliveries of an event',
      description:
        'Workers with an attempt under way learn of it by heartbeat; that delivery is not retried.',
      body: { kind: 'json', schema: cancelOneBody, isOptional: true },
      responses: { 200: { description: 'How many deliveries were cancelled.', schema: cancelled } },
      errors: ['CANCEL_UNFINISHED'],
      handle: async ({ params, body: { reason = 'cancelled' }, caller }) => {
        await detailsOf(hub, params.id, { logs: false })
        const target = String(params.id)
        await recordAction(hub, caller, { action: 'event.cancel', target, details: { reason } })
        return cancelledAnswer(await hub.cancel([params.id], reason), { event_id: params.id })
      },
    }),
    defineRoute('POST /events/cancel', 'cancelEvents', 'manage', {
      summary: 'Cancel the unfinished deliveries of all events that match',
      description: `Cancels up to ${cancelEventsMax} events a call, oldest first. If \`more\` is true, call again with the same filter and with \`next_cursor\` as \`cursor\`. Needs a filter or ids.`,
      body: { kind: 'json', schema: cancelBody, example: { type: 'order.*', reason: 'wrong prices' } },
      responses: { 200: { description: 'How many deliveries were cancelled.', schema: cancelled } },
      errors: ['BAD_OPTION', 'CANCEL_UNFINISHED'],
      handle: async ({ body: { reason = 'cancelled', ...filter }, caller }) => {
        const { eventIds, nextCursor } = await eventsToCancel(hub, filter)
        const target = `${eventIds.length} events`
        await recordAction(hub, caller, { action: 'events.cancel', target, details: { reason, ...filter } })
        const done = eventIds.length === 0 ? [] : await hub.cancel(eventIds, reason)
        const more = nextCursor !== null
        return cancelledAnswer(done, { more, ...(more && { next_cursor: nextCursor }) })
      },
    }),
  ]
}

type Filter = Omit<z.output<typeof cancelBody>, 'reason'>

/** Only unfinished events can be cancelled, so a filter finds only those. */
async function eventsToCancel(hub: Hub, { ids, cursor, ...query }: Filter): Promise<UnfinishedPage> {
  if (ids !== undefined) {
    const [other] = Object.keys({ ...query, ...given({ cursor }) })
    if (other === undefined) return { eventIds: [...new Set(ids)], nextCursor: null }
    throw badField(other, 'left out where there are ids', 'given')
  }
  if (Object.keys(query).length === 0) throw badField('ids', 'given where there is no filter', undefined)
  const { created_from: from, created_to: to, ...rest } = query
  const times = { created_from: dateOf(from), created_to: dateOf(to) }
  return hub.listUnfinished(filterOf({ ...rest, ...times, cursor, limit: cancelEventsMax }))
}

function cancelledAnswer(done: readonly Cancelled[], more: object): Answer {
  const told = done.filter((one) => one.told).length
  return { status: 200, json: { ...more, cancelled: done.length - told, told } }
}
