import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { DeadLetter, DeadLetterFilter, DeadLetterHead, Hub } from '../../hub.ts'
import * as schemas from '../dead-letter-schemas.ts'
import { linkTo, searchFieldsOf } from '../page.ts'
import { type Answer, type Call, type Caller, defineRoute, type Route } from '../route.ts'
import { record } from './manage.ts'

const params = z.object({ id: z.uuid() })
type ListCall = Call<unknown, z.output<typeof schemas.deadLetterQuery>, unknown>
type RetryBody = z.output<typeof schemas.retryBody>

/** What was given up: to see, to try again, to throw away. */
export function deadLetterRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/dlq', name: 'listDeadLetters', scope: 'manage' },
      query: schemas.deadLetterQuery,
      summary: 'List dead letters',
      description:
        'Without snapshots. Those that were retried are left out unless `include_retried=true`. Where few match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` goes on from there.',
      responses: {
        200: {
          description: 'A page.',
          schema: schemas.letterList,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'NOT_FOUND'],
      handle: (call) => list(hub, call),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/dlq/{id}', name: 'getDeadLetter', scope: 'manage', params },
      summary: 'Get a dead letter, with the event and the subscriber as they were',
      responses: { 200: { description: 'It.', schema: schemas.letterDetails } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: ({ params }) => details(hub, params.id),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/dlq/{id}/retry', name: 'retryDeadLetter', scope: 'manage', params },
      summary: 'Retry a dead letter',
      description:
        'With a fresh budget: at the end of its lane, or at its head if the lane stopped at it. One that no subscriber wanted is routed again.',
      body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
      responses: { 200: { description: 'As it is now.', schema: schemas.letterDetails } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'ALREADY_RETRIED', 'NOT_RETRYABLE'],
      handle: async ({ params, caller }) => {
        await letterOf(hub, params.id)
        await record(hub, caller, 'dlq.retry', params.id, {})
        await hub.retryDeadLetter(params.id, caller.name)
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/dlq/retry', name: 'retryDeadLetters', scope: 'manage' },
      summary: 'Retry all dead letters that match',
      description:
        'Up to 1,000 a call, in the order of their events; `more` says whether to call again. Needs a filter or ids.',
      body: {
        kind: 'json',
        schema: schemas.retryBody,
        example: { subscriber: 'billing', since: '2026-01-05T09:30:00.000Z' },
      },
      responses: { 200: { description: 'How many.', schema: schemas.retried } },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'NOT_FOUND'],
      handle: ({ body, caller }) => retrySome(hub, body, caller),
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/dlq/{id}', name: 'discardDeadLetter', scope: 'manage', params },
      summary: 'Throw a dead letter away',
      description: 'If its lane stopped at it, the lane goes on. The delivery is cancelled from then on.',
      responses: { 204: { description: 'Gone.' } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'ALREADY_RETRIED'],
      handle: async ({ params, caller }) => {
        const { eventId, name } = await letterOf(hub, params.id)
        await record(hub, caller, 'dlq.discard', params.id, { event_id: eventId, subscriber: name })
        await hub.discardDeadLetter(params.id, caller.name)
        hub.pull.look()
        return { status: 204 }
      },
    }),
  ]
}

async function list(hub: Hub, { query, request }: ListCall): Promise<Answer> {
  const { limit = 20, offset = 0, order, cursor, include_retried: includeRedriven, ...rest } = query
  const page = await hub.deadLetterHeads({
    ...(await filterOf(hub, rest)),
    ...{ limit, offset },
    ...(order !== undefined && { order }),
    ...(cursor !== undefined && { cursor }),
    ...(includeRedriven !== undefined && { includeRedriven }),
  })
  const { deadLetters, nextCursor, ...found } = page
  return {
    status: 200,
    json: {
      dead_letters: deadLetters.map(wireOf),
      ...searchFieldsOf(found),
      limit,
      offset,
      ...(nextCursor !== null && { next_cursor: nextCursor }),
    },
    ...(nextCursor !== null && { headers: linkTo(request.url, nextCursor) }),
  }
}

async function retrySome(hub: Hub, body: RetryBody, caller: Caller): Promise<Answer> {
  const { ids, since, until, ...rest } = body
  const [first] = Object.keys({ ...rest, ...(since && { since }), ...(until && { until }) })
  if (ids === undefined && first === undefined) {
    throw badField('ids', 'given where there is no filter', 'nothing')
  }
  if (ids !== undefined && first !== undefined) throw badField(first, 'left out where there are ids', 'given')
  const times = {
    since: since === undefined ? since : new Date(since),
    until: until === undefined ? until : new Date(until),
  }
  const filter = await filterOf(hub, { ...rest, ...times })
  await record(hub, caller, 'dlq.retry', ids === undefined ? 'all that match' : `${ids.length} by id`, body)
  const { redriven, more } =
    ids === undefined
      ? await hub.retryDeadLetters(filter, caller.name)
      : { redriven: await hub.redrive(ids, caller.name), more: false }
  hub.pull.look()
  const retried = new Set(redriven.map(({ deadLetterId }) => deadLetterId)).size
  return { status: 200, json: { retried, more } }
}

function badField(field: string, expected: string, value: string): PosthornError {
  return new PosthornError('BAD_FIELD', { field, expected, value })
}

type Asked = Pick<
  z.output<typeof schemas.deadLetterQuery>,
  'subscriber' | 'event_id' | 'event_type' | 'kind' | 'since' | 'until'
>

async function filterOf(hub: Hub, asked: Asked): Promise<DeadLetterFilter> {
  const { subscriber, event_id: eventId, event_type: eventType, kind, since, until } = asked
  return {
    ...(subscriber !== undefined && { subscription: await hub.deliveries.subscriber(subscriber) }),
    ...(eventId !== undefined && { eventId }),
    ...(eventType !== undefined && { eventType }),
    ...(kind !== undefined && { kind }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  }
}

async function letterOf(hub: Hub, id: string): Promise<DeadLetter> {
  const letter = await hub.deadLetter(id)
  if (letter === undefined) throw new PosthornError('NOT_FOUND', { what: 'dead letter', id })
  return letter
}

/** Put together by hand, so that the payload goes out as the bytes that came in. */
async function details(hub: Hub, id: string): Promise<Answer> {
  const letter = await letterOf(hub, id)
  const { eventText, subscriptionText } = letter
  const head = JSON.stringify(wireOf(letter)).slice(0, -1)
  const text = `${head},"event_snapshot":${eventText},"subscriber_snapshot":${subscriptionText}}`
  return { status: 200, text }
}

function wireOf(letter: DeadLetterHead): object {
  const { id, deliveryId, eventId, eventType, subscriptionId, name, kind, reason } = letter
  return {
    ...{ id, message_id: deliveryId, event_id: eventId, event_type: eventType },
    ...{ subscriber_id: subscriptionId, subscriber: name, kind, failure_reason: reason },
    ...{ attempts: letter.attempts, failures: letter.failures, moved_to_dlq_at: letter.buriedAt },
    ...{ manual_retry_by: letter.redrivenBy, manual_retry_at: letter.redrivenAt },
    ...(letter.purgedAt !== null && { purged_at: letter.purgedAt }),
  }
}
