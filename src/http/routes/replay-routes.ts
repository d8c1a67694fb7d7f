import { z } from 'zod'
import { planRecover, planReplay, type RecoverOptions, type ReplayOptions } from '../../domain/replay.ts'
import { PosthornError } from '../../errors.ts'
import type { Hub, Replay, ReplayCount } from '../../hub.ts'
import { linkTo } from '../list-page.ts'
import * as schemas from '../replay-schemas.ts'
import { type Answer, type Caller, defineRoute, type Route } from '../route.ts'
import { record } from './event-action-routes.ts'

const params = z.object({ id: z.uuid() })
const started = {
  200: { description: 'The same was asked for before; or only counted.', schema: schemas.replayOrCount },
  202: { description: 'It has begun.', schema: schemas.replay },
}

/** What is delivered once more on demand: durable work, done by upkeep wherever it runs. */
export function replayRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'POST', path: '/subscribers/{id}/recover', name: 'recoverSubscriber', scope: 'manage' },
      ...{ params, query: schemas.recoverQuery },
      summary: 'Send the dead letters of a subscription once more',
      description:
        'Each gets a fresh budget and keeps its delivery id; lanes keep their order. Needs `since`. The same call is the same recovery while it runs and for ten minutes after.',
      body: {
        ...{ kind: 'json', schema: schemas.recoverBody, isOptional: true },
        example: { since: '2026-11-15T00:00:00Z', rate_per_second: 100 },
      },
      responses: started,
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: ({ params, query, body, caller }) => recover(hub, params.id, { query, body, caller }),
    }),
    defineRoute({
      ...{ method: 'POST', path: '/subscribers/{id}/replay', name: 'replaySubscriber', scope: 'manage' },
      params,
      summary: 'Send events to a subscription once more',
      description:
        'All that it was owed, whatever became of it, and what it would be owed now; what waits or is under way is left alone. They go to the ends of their lanes, in order.',
      body: {
        ...{ kind: 'json', schema: schemas.replayBody },
        example: { from: '2026-11-15T00:00:00Z', to: '2026-11-16T00:00:00Z', event_type: 'invoice.*' },
      },
      responses: started,
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: ({ params, body, caller }) => replay(hub, params.id, { body, caller }),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/replays', name: 'listReplays', scope: 'manage' },
      query: schemas.replaysQuery,
      summary: 'List recoveries and replays',
      responses: {
        200: {
          ...{ description: 'A page.', schema: schemas.replays },
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION'],
      handle: ({ query, request }) => list(hub, query, request.url),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/replays/{id}', name: 'getReplay', scope: 'manage', params },
      summary: 'See how far a recovery or replay is',
      responses: { 200: { description: 'It.', schema: schemas.replay } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params }) => ({ status: 200, json: wireOf(await hub.replays.get(params.id)) }),
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/replays/{id}', name: 'abortReplay', scope: 'manage', params },
      summary: 'Abort a recovery or replay',
      description: 'What is sent stays sent, and nothing more is. Aborting what has ended changes nothing.',
      responses: { 200: { description: 'As it is now.', schema: schemas.replay } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params, caller }) => {
        await hub.replays.get(params.id)
        await record(hub, caller, 'replay.abort', params.id, {})
        return { status: 200, json: wireOf(await hub.replays.abort(params.id, caller.name)) }
      },
    }),
  ]
}

interface RecoverCall {
  readonly query: z.output<typeof schemas.recoverQuery>
  readonly body: z.output<typeof schemas.recoverBody>
  readonly caller: Caller
}

async function recover(hub: Hub, id: string, { query, body, caller }: RecoverCall): Promise<Answer> {
  const { name } = await hub.subscribers.get(id)
  const options = recoverOptions(query, body)
  if (body.dry_run === true) return countAnswer(await hub.replays.count(name, planRecover(options)))
  planRecover(options)
  await record(hub, caller, 'subscriber.recover', name, { ...body, since: options.since.toISOString() })
  return startedAnswer(await hub.recover(name, options, termsOf(body, caller)))
}

interface ReplayCall {
  readonly body: z.output<typeof schemas.replayBody>
  readonly caller: Caller
}

async function replay(hub: Hub, id: string, { body, caller }: ReplayCall): Promise<Answer> {
  const { name } = await hub.subscribers.get(id)
  const options = replayOptions(body)
  if (body.dry_run === true) return countAnswer(await hub.replays.count(name, planReplay(options)))
  planReplay(options)
  await record(hub, caller, 'subscriber.replay', name, body)
  return startedAnswer(await hub.replay(name, options, termsOf(body, caller)))
}

function termsOf({ again }: { again?: boolean | undefined }, caller: Caller) {
  return { by: caller.name, identical: again === true ? 'again' : 'same' } as const
}

function recoverOptions(query: RecoverCall['query'], body: RecoverCall['body']): RecoverOptions {
  const since = query.since ?? (body.since === undefined ? undefined : new Date(body.since))
  if (since === undefined || (query.since !== undefined && body.since !== undefined)) {
    const value = since === undefined ? 'nothing' : 'both'
    throw new PosthornError('BAD_FIELD', {
      field: 'since',
      expected: 'given in the query or in the body',
      value,
    })
  }
  const { until, dead_letters: deadLetters, rate_per_second: ratePerSecond } = body
  return {
    since,
    ...(until !== undefined && { until: new Date(until) }),
    ...(deadLetters !== undefined && { deadLetters }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
  }
}

function replayOptions(body: ReplayCall['body']): ReplayOptions {
  const { from, to, event_ids: eventIds, event_type: eventType, filter } = body
  const { rate_per_second: ratePerSecond } = body
  return {
    ...(from !== undefined && { from: new Date(from) }),
    ...(to !== undefined && { to: new Date(to) }),
    ...(eventIds !== undefined && { eventIds }),
    ...(eventType !== undefined && { eventType }),
    ...(filter != null && { filter }),
    ...(ratePerSecond !== undefined && { ratePerSecond }),
  }
}

async function list(hub: Hub, query: z.output<typeof schemas.replaysQuery>, url: string): Promise<Answer> {
  const { subscriber, state, limit = 20, offset = 0, order, cursor } = query
  const page = await hub.replays.list({
    ...{ limit, offset },
    ...(subscriber !== undefined && { subscriptionId: subscriber }),
    ...(state !== undefined && { state }),
    ...(order !== undefined && { order }),
    ...(cursor !== undefined && { cursor }),
  })
  const { replays, total, totalIsEstimate, nextCursor } = page
  const json = {
    ...{ replays: replays.map(wireOf), total, ...(totalIsEstimate && { total_is_estimate: true }) },
    ...{ limit, offset, ...(nextCursor !== null && { next_cursor: nextCursor }) },
  }
  return { status: 200, json, ...(nextCursor !== null && { headers: linkTo(url, nextCursor) }) }
}

function startedAnswer({ replay, isNew }: { replay: Replay; isNew: boolean }): Answer {
  const headers = { location: `/replays/${replay.id}` }
  return { status: isNew ? 202 : 200, json: wireOf(replay), headers }
}

function countAnswer({ total, totalIsEstimate, removed, oldestKeptAt }: ReplayCount): Answer {
  const json = {
    ...{ dry_run: true, count: total, ...(totalIsEstimate && { count_is_estimate: true }) },
    ...{ removed, oldest_kept_at: oldestKeptAt },
  }
  return { status: 200, json }
}

function wireOf(replay: Replay) {
  const { id, kind, subscription, state, request, total, totalIsEstimate, done, skipped, removed } = replay
  const passed = done + skipped + removed
  const isOver = state === 'completed'
  return {
    ...{ id, kind, subscriber_id: subscription.id, subscriber: subscription.name, state, request },
    ...{ total, ...(totalIsEstimate && { total_is_estimate: true }), done, skipped, removed },
    remaining: isOver ? 0 : Math.max(0, total - passed),
    // An estimate may be too low: only what has ended is done for sure.
    percent: isOver ? 100 : Math.min(99, Math.floor((100 * passed) / Math.max(1, total))),
    ...{ reached_event_id: replay.reached, oldest_kept_at: replay.oldestKeptAt },
    ...{ rate_per_second: replay.ratePerSecond, created_at: replay.createdAt, created_by: replay.createdBy },
    ...{ finished_at: replay.finishedAt, reason: replay.reason, last_error: replay.lastError },
  }
}
