import { z } from 'zod'
import { eventStatuses } from '../../domain/status.ts'
import { PosthornError } from '../../errors.ts'
import type { EventDetails, EventFilter, Hub, ListedEvent, LogEntry } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import { eventText } from '../event-text.ts'
import { cloudEvent, cloudEventOut, format, formatOf } from '../format.ts'
import { given } from '../given.ts'
import { eventList } from '../list-schemas.ts'
import { pageFieldsOf, pageResponse, textPageAnswer } from '../page-answer.ts'
import { readStorable, readTags } from '../read-request.ts'
import { type Answer, type Call, defineRoute, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import * as schemas from '../schemas.ts'

const listQuery = z.strictObject({
  status: z.enum(eventStatuses).optional(),
  tags: schemas.tagsAsked.optional(),
  type: schemas.typeFilter
    .optional()
    .describe(
      'Only events of this type: `order.created`, `order.*`, or `*` for every event that has a type.',
    ),
  ordering_key: schemas.text(255).optional(),
  created_from: schemas.moment().optional().describe('Only events published at or after this time.'),
  created_to: schemas.moment().optional().describe('Only events published before this time.'),
  ...schemas.paging('By id: `asc` has the oldest event first.'),
})
type ListCall = Call<unknown, z.output<typeof listQuery>, unknown>

const params = z.object({ id: schemas.eventId })

/** Reading events: the list, and one event. */
export function eventRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /events', 'listEvents', 'read', {
      query: listQuery,
      summary: 'List events',
      description:
        'By id, without payloads. `payload.<path>=<value>` searches payloads within a time range, for which `created_from` is required; `searched` says how far the search came. One call does bounded work: where few match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` continues from there.',
      queryPrefix: 'payload.',
      responses: {
        200: pageResponse(eventList, 'A page of events.'),
      },
      errors: ['BAD_OPTION'],
      handle: (call) => list(hub, call),
    }),
    defineRoute('GET /events/{id}', 'getEvent', 'read', {
      params,
      query: z.strictObject({ include_logs: schemas.flag().optional(), format }),
      summary: 'Get an event with its deliveries, and on request with its log',
      description: '`Accept: application/cloudevents+json` returns the event as a CloudEvent.',
      responses: {
        200: {
          description: 'The event.',
          schema: schemas.eventDetails,
          otherContents: { 'application/cloudevents+json': cloudEventOut },
        },
      },
      handle: async ({ params, query, request }) => {
        const logs = query.include_logs === true
        const details = await detailsOf(hub, params.id, { logs })
        const asked = formatOf(request, query.format)
        if (asked !== 'json') return cloudEvent(details.event, { format: asked })
        return { status: 200, text: detailsText(details, logs ? logsText(details.logs) : '') }
      },
    }),
  ]
}

export async function detailsOf(hub: Hub, id: number, options: { logs: boolean }): Promise<EventDetails> {
  const details = await hub.event(id, options)
  if (details === undefined) throw new PosthornError('NOT_FOUND', { what: 'event', id })
  return details
}

export function detailsText(details: EventDetails, more: string): string {
  const { event, progress, deliveries, purgedAt } = details
  const owed = deliveries.map(deliveryJson)
  const purged = purgedAt === null ? '' : `,"purged_at":${JSON.stringify(purgedAt)}`
  return eventText(event, progress, `${purged},"deliveries":${JSON.stringify(owed)}${more}`)
}

function logsText(logs: readonly LogEntry[]): string {
  return `,"logs":${JSON.stringify(logs.map(entryJson))}`
}

const deliveryJson = writerOf(schemas.delivery, ({ name, worker }: EventDetails['deliveries'][number]) => ({
  subscription: name,
  worker_id: worker,
}))

const entryJson = writerOf(schemas.logEntry, ({ statusCode, errorMessage, executionTimeMs }: LogEntry) => ({
  status_code: statusCode ?? undefined,
  error_message: errorMessage || undefined,
  execution_time_ms: executionTimeMs ?? undefined,
}))

async function list(hub: Hub, call: ListCall): Promise<Answer> {
  const { query, request } = call
  const filter = filterOf(query)
  if (call.prefixed.length > 0) return search(hub, filter, call)
  const { events, ...page } = await hub.listEvents(filter)
  return eventsAnswer(events, { fields: pageFieldsOf(query, page), url: request.url, ...page })
}

async function search(
  hub: Hub,
  filter: EventFilter,
  { query, prefixed, request }: ListCall,
): Promise<Answer> {
  if (filter.createdFrom === undefined) {
    throw badField('created_from', 'given where payloads are searched', undefined)
  }
  if ((filter.offset ?? 0) > 0) {
    throw badField('offset', '0 where payloads are searched', filter.offset)
  }
  const paths = prefixed.map(([path, value]) => ({ path: path.split('.'), value }))
  const { events, searched, searchedTo, nextCursor } = await hub.searchPayloads({ ...filter, paths })
  const fields = {
    limit: query.limit ?? 20,
    offset: 0,
    searched,
    ...given({ searched_to: searchedTo, next_cursor: nextCursor }),
  }
  return eventsAnswer(events, { fields, url: request.url, nextCursor })
}

function eventsAnswer(
  events: readonly ListedEvent[],
  page: { fields: object; url: string; nextCursor: string | null },
): Answer {
  return textPageAnswer(
    'events',
    events.map((event) => eventText(event, event)),
    page,
  )
}

/** The filter of events that a request names, also for calls that act on all events that match. */
export function filterOf(
  query: Omit<z.output<typeof listQuery>, 'tags'> & { tags?: string | string[] | undefined },
): EventFilter {
  const { status, tags, type, ordering_key: orderingKey, limit, offset, order, cursor } = query
  return given({
    status,
    tags: tags === undefined ? undefined : readTags(tags),
    type,
    orderingKey: orderingKey === undefined ? undefined : readStorable('ordering_key', orderingKey),
    createdFrom: query.created_from,
    createdTo: query.created_to,
    limit,
    offset,
    order,
    cursor,
  })
}
