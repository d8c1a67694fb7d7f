import { z } from 'zod'
import { eventStatuses } from '../../domain/status.ts'
import { PosthornError } from '../../errors.ts'
import type { EventDetails, EventFilter, Hub, LogEntry } from '../../hub.ts'
import { cloudEvent, cloudEventOut, format, formatOf } from '../format.ts'
import { eventList } from '../list-schemas.ts'
import { linkTo, searchFieldsOf } from '../page.ts'
import { readStorable, readTags } from '../read-request.ts'
import { type Answer, type Call, defineRoute, type Route } from '../route.ts'
import * as schemas from '../schemas.ts'
import { eventText } from '../wire.ts'

const listQuery = z.strictObject({
  status: z.enum(eventStatuses).optional(),
  tags: schemas.tagsAsked.optional(),
  type: schemas.typeFilter.optional().describe('A type, `prefix.*`, or `*` for all that have one.'),
  ordering_key: schemas.text(255).optional(),
  created_from: schemas.moment().optional().describe('Published at or after.'),
  created_to: schemas.moment().optional().describe('Published before.'),
  limit: schemas.whole(1, 1000).optional(),
  offset: schemas.whole(0, 10_000).optional(),
  order: z.enum(['asc', 'desc']).optional().describe('By id.'),
  cursor: z
    .string()
    .max(200)
    .optional()
    .describe('From `next_cursor`: goes on where a page ended, however deep.'),
})
type ListCall = Call<unknown, z.output<typeof listQuery>, unknown>

const params = z.object({ id: schemas.eventId })

/** Reading events. */
export function eventRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/events', name: 'listEvents', scope: 'read', query: listQuery },
      summary: 'List events',
      description:
        'By id, without payloads. `payload.<path>=<value>` searches payloads within a time range (`created_from` is required) and says how far it came. One call does bounded work: where few events match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` goes on from there.',
      queryPrefix: 'payload.',
      responses: {
        200: {
          description: 'A page.',
          schema: eventList,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION'],
      handle: (call) => list(hub, call),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/events/{id}', name: 'getEvent', scope: 'read', params },
      query: z.strictObject({ include_logs: schemas.flag().optional(), format }),
      summary: 'Get an event, where it stands, and on request its log',
      description: '`Accept: application/cloudevents+json` gives the event as a CloudEvent.',
      responses: {
        200: {
          description: 'The event.',
          schema: schemas.eventDetails,
          otherContents: { 'application/cloudevents+json': cloudEventOut },
        },
      },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
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
  const owed = deliveries.map((delivery) => ({
    ...{ id: delivery.id, subscription: delivery.name, subscription_id: delivery.subscriptionId },
    ...{ state: delivery.state, attempts: delivery.attempts, failures: delivery.failures },
    ...{ next_at: delivery.nextAt, last_error: delivery.lastError, last_error_at: delivery.lastErrorAt },
    ...{ leased_at: delivery.leasedAt, leased_until: delivery.leasedUntil, worker_id: delivery.worker },
    updated_at: delivery.updatedAt,
  }))
  const purged = purgedAt === null ? '' : `,"purged_at":${JSON.stringify(purgedAt)}`
  return eventText(event, progress, `${purged},"deliveries":${JSON.stringify(owed)}${more}`)
}

function logsText(logs: readonly LogEntry[]): string {
  return `,"logs":${JSON.stringify(logs.map(entryOf))}`
}

function entryOf(entry: LogEntry): object {
  const { id, eventId, workerId, action, statusCode, errorMessage, executionTimeMs, createdAt } = entry
  return {
    ...{ id, event_id: eventId, worker_id: workerId, action },
    ...(statusCode !== null && { status_code: statusCode }),
    ...(errorMessage !== null && errorMessage !== '' && { error_message: errorMessage }),
    ...(executionTimeMs !== null && { execution_time_ms: executionTimeMs }),
    created_at: createdAt,
  }
}

async function list(hub: Hub, { query, prefixed, request }: ListCall): Promise<Answer> {
  const { limit = 20, offset = 0 } = query
  const filter = filterOf(query)
  if (prefixed.length > 0) return search(hub, filter, { limit, prefixed, url: request.url })
  const { events, nextCursor, ...found } = await hub.listEvents(filter)
  const rest = {
    ...searchFieldsOf(found),
    limit,
    offset,
    ...(nextCursor !== null && { next_cursor: nextCursor }),
  }
  const texts = events.map((event) => eventText(event, event))
  return {
    status: 200,
    text: `{"events":[${texts.join(',')}],${JSON.stringify(rest).slice(1)}`,
    ...(nextCursor !== null && { headers: linkTo(request.url, nextCursor) }),
  }
}

interface Search {
  readonly limit: number
  readonly prefixed: ListCall['prefixed']
  readonly url: string
}

async function search(hub: Hub, filter: EventFilter, { limit, prefixed, url }: Search): Promise<Answer> {
  if (filter.createdFrom === undefined) {
    throw new PosthornError('BAD_FIELD', {
      ...{ field: 'created_from', expected: 'given where payloads are searched', value: 'nothing' },
    })
  }
  if ((filter.offset ?? 0) > 0) {
    throw new PosthornError('BAD_FIELD', {
      field: 'offset',
      expected: '0 where payloads are searched',
      value: filter.offset,
    })
  }
  const paths = prefixed.map(([path, value]) => ({ path: path.split('.'), value }))
  const { events, searched, searchedTo, nextCursor } = await hub.searchPayloads({ ...filter, paths })
  const rest = {
    limit,
    offset: 0,
    searched,
    ...(searchedTo !== null && { searched_to: searchedTo }),
    ...(nextCursor !== null && { next_cursor: nextCursor }),
  }
  const texts = events.map((event) => eventText(event, event))
  return {
    status: 200,
    text: `{"events":[${texts.join(',')}],${JSON.stringify(rest).slice(1)}`,
    ...(nextCursor !== null && { headers: linkTo(url, nextCursor) }),
  }
}

/** The same for everything that chooses events by what they are. */
export function filterOf(
  query: Omit<z.output<typeof listQuery>, 'tags'> & { tags?: string | string[] | undefined },
): EventFilter {
  const { status, tags, type, ordering_key, created_from, created_to, limit, offset, order, cursor } = query
  return {
    ...(status !== undefined && { status }),
    ...(tags !== undefined && { tags: readTags(tags) }),
    ...(type !== undefined && { type }),
    ...(ordering_key !== undefined && { orderingKey: readStorable('ordering_key', ordering_key) }),
    ...(created_from !== undefined && { createdFrom: created_from }),
    ...(created_to !== undefined && { createdTo: created_to }),
    ...(limit !== undefined && { limit }),
    ...(offset !== undefined && { offset }),
    ...(order !== undefined && { order }),
    ...(cursor !== undefined && { cursor }),
  }
}
