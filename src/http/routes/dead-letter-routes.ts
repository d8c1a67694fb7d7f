import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { DeadLetter, DeadLetterFilter, DeadLetterHead, Hub } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import * as schemas from '../dead-letter-schemas.ts'
import { dateOf, given } from '../given.ts'
import { pageAnswer, pageResponse, pagingOf } from '../page-answer.ts'
import { type Answer, type Call, type Caller, defineRoute, emptyBody, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: z.uuid() })
type ListCall = Call<unknown, z.output<typeof schemas.deadLetterQuery>, unknown>
type RetryBody = z.output<typeof schemas.retryBody>

/** Dead letters: deliveries that were given up, and what operators do to them. */
export function deadLetterRoutes(hub: Hub): Route[] {
  return [
    defineRoute('GET /dlq', 'listDeadLetters', 'manage', {
      query: schemas.deadLetterQuery,
      summary: 'List dead letters',
      description:
        'Without the snapshots. Dead letters that were retried are left out, unless `include_retried=true`. One call does bounded work: where few match, a page may be short; then `searched_to` says how far the call came, and `next_cursor` continues from there.',
      responses: {
        200: pageResponse(schemas.letterList, 'A page of dead letters.'),
      },
      errors: ['BAD_OPTION', 'NOT_FOUND'],
      handle: (call) => list(hub, call),
    }),
    defineRoute('GET /dlq/{id}', 'getDeadLetter', 'manage', {
      params,
      summary: 'Get a dead letter, with the event and the subscription as they were',
      responses: { 200: { description: 'The dead letter.', schema: schemas.letterDetails } },
      handle: ({ params }) => details(hub, params.id),
    }),
    defineRoute('POST /dlq/{id}/retry', 'retryDeadLetter', 'manage', {
      params,
      summary: 'Retry a dead letter',
      description:
        'The delivery starts over with no failures counted, at the end of its lane; if the lane stopped at it, at the head. A dead letter that no subscription matched is routed again.',
      body: emptyBody,
      responses: { 200: { description: 'The dead letter as it is now.', schema: schemas.letterDetails } },
      errors: ['ALREADY_RETRIED', 'NOT_RETRYABLE'],
      handle: async ({ params, caller }) => {
        await letterOf(hub, params.id)
        await recordAction(hub, caller, { action: 'dlq.retry', target: params.id })
        await hub.retryDeadLetter(params.id, caller.name)
        hub.pull.look()
        return details(hub, params.id)
      },
    }),
    defineRoute('POST /dlq/retry', 'retryDeadLetters', 'manage', {
      summary: 'Retry all dead letters that match',
      description:
        'Retries up to 1,000 dead letters a call, in the order of their events; if `more` is true, call again. Needs a filter or ids.',
      body: {
        kind: 'json',
        schema: schemas.retryBody,
        example: { subscriber: 'billing', since: '2026-01-05T09:30:00.000Z' },
      },
      responses: { 200: { description: 'How many dead letters were retried.', schema: schemas.retried } },
      errors: ['BAD_OPTION', 'NOT_FOUND'],
      handle: ({ body, caller }) => retrySome(hub, body, caller),
    }),
    defineRoute('DELETE /dlq/{id}', 'discardDeadLetter', 'manage', {
      params,
      summary: 'Discard a dead letter',
      description: 'The delivery is cancelled. If its lane stopped at it, the lane goes on.',
      responses: { 204: { description: 'The dead letter is discarded.' } },
      errors: ['ALREADY_RETRIED'],
      handle: async ({ params, caller }) => {
        const { eventId, name } = await letterOf(hub, params.id)
        const details = { event_id: eventId, subscriber: name }
        await recordAction(hub, caller, { action: 'dlq.discard', target: params.id, details })
        await hub.discardDeadLetter(params.id, caller.name)
        hub.pull.look()
        return { status: 204 }
      },
    }),
  ]
}

async function list(hub: Hub, { query, request }: ListCall): Promise<Answer> {
  const page = await hub.deadLetterHeads({
    ...(await filterOf(hub, query)),
    ...pagingOf(query),
    ...given({ includeRedriven: query.include_retried }),
  })
  return pageAnswer({ dead_letters: page.deadLetters.map(letterJson) }, { query, url: request.url, page })
}

async function retrySome(hub: Hub, body: RetryBody, caller: Caller): Promise<Answer> {
  const { ids, since, until, ...rest } = body
  const [first] = Object.keys({ ...rest, ...given({ since, until }) })
  if (ids === undefined && first === undefined) {
    throw badField('ids', 'given where there is no filter', 'nothing')
  }
  if (ids !== undefined && first !== undefined) throw badField(first, 'left out where there are ids', 'given')
  const filter = await filterOf(hub, { ...rest, since: dateOf(since), until: dateOf(until) })
  const target = ids === undefined ? 'all that match' : `${ids.length} by id`
  await recordAction(hub, caller, { action: 'dlq.retry', target, details: body })
  const { redriven, more } =
    ids === undefined
      ? await hub.retryDeadLetters(filter, caller.name)
      : { redriven: await hub.redrive(ids, caller.name), more: false }
  hub.pull.look()
  const retried = new Set(redriven.map(({ deadLetterId }) => deadLetterId)).size
  return { status: 200, json: { retried, more } }
}

type Asked = Omit<z.output<typeof schemas.deadLetterQuery>, 'order'>

async function filterOf(hub: Hub, asked: Asked): Promise<DeadLetterFilter> {
  const { subscriber, event_id: eventId, event_type: eventType, kind, since, until } = asked
  const subscription = subscriber === undefined ? undefined : await hub.deliveries.subscriber(subscriber)
  return given({ subscription, eventId, eventType, kind, since, until })
}

async function letterOf(hub: Hub, id: string): Promise<DeadLetter> {
  const letter = await hub.deadLetter(id)
  if (letter === undefined) throw new PosthornError('NOT_FOUND', { what: 'dead letter', id })
  return letter
}

/** JSON text, not an object, so that the payload goes out as the bytes that came in. */
async function details(hub: Hub, id: string): Promise<Answer> {
  const letter = await letterOf(hub, id)
  const { eventText, subscriptionText } = letter
  const head = JSON.stringify(letterJson(letter)).slice(0, -1)
  const text = `${head},"event_snapshot":${eventText},"subscriber_snapshot":${subscriptionText}}`
  return { status: 200, text }
}

const letterJson = writerOf(schemas.letter, (letter: DeadLetterHead) => ({
  message_id: letter.deliveryId,
  subscriber_id: letter.subscriptionId,
  subscriber: letter.name,
  failure_reason: letter.reason,
  moved_to_dlq_at: letter.buriedAt,
  manual_retry_by: letter.redrivenBy,
  manual_retry_at: letter.redrivenAt,
  purged_at: letter.purgedAt ?? undefined,
}))
