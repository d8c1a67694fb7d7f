import { z } from 'zod'
import { planRecover, planReplay, type RecoverOptions, type ReplayOptions } from '../../domain/replay.ts'
import type { Hub, Replay, ReplayCount } from '../../hub.ts'
import { writerOf } from '../answer-writer.ts'
import { dateOf, given } from '../given.ts'
import { pageAnswer, pageResponse, pagingOf } from '../page-answer.ts'
import * as schemas from '../replay-schemas.ts'
import { type Answer, type Call, type Caller, defineRoute, type Route } from '../route.ts'
import { badField } from '../schema-issue.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: z.uuid() })
const started = {
  200: {
    description:
      'The same call was made before, and this is its recovery or replay; or, with `dry_run`, the count.',
    schema: schemas.replayOrCount,
  },
  202: { description: 'The recovery or replay has begun.', schema: schemas.replay },
}

/** Recoveries and replays: durable work that upkeep does step by step, in whichever process it runs. */
export function replayRoutes(hub: Hub): Route[] {
  return [
    defineRoute('POST /subscribers/{id}/recover', 'recoverSubscriber', 'manage', {
      params,
      query: schemas.recoverQuery,
      summary: 'Send the dead letters of a subscription again',
      description:
        'Each delivery keeps its id and starts over with no failures counted; lanes keep their order. Needs `since`. A repeat of the call, while the recovery runs or within ten minutes after it, returns the same recovery.',
      body: {
        kind: 'json',
        schema: schemas.recoverBody,
        isOptional: true,
        example: { since: '2026-11-15T00:00:00Z', rate_per_second: 100 },
      },
      responses: started,
      handle: (call) => recover(hub, call),
    }),
    defineRoute('POST /subscribers/{id}/replay', 'replaySubscriber', 'manage', {
      params,
      summary: 'Send events to a subscription again',
      description:
        'Sends every matching event that the subscription received, and every one that it would receive now. Deliveries that wait or are under way are left alone. Events go to the end of their lanes, in order.',
      body: {
        kind: 'json',
        schema: schemas.replayBody,
        example: { from: '2026-11-15T00:00:00Z', to: '2026-11-16T00:00:00Z', event_type: 'invoice.*' },
      },
      responses: started,
      handle: (call) => replay(hub, call),
    }),
    defineRoute('GET /replays', 'listReplays', 'manage', {
      query: schemas.replaysQuery,
      summary: 'List recoveries and replays',
      responses: { 200: pageResponse(schemas.replays, 'A page of recoveries and replays.') },
      errors: ['BAD_OPTION'],
      handle: async ({ query, request: { url } }) => {
        const filter = given({ subscriptionId: query.subscriber, state: query.state })
        const page = await hub.replays.list({ ...pagingOf(query), ...filter })
        return pageAnswer({ replays: page.replays.map(replayJson) }, { query, url, page })
      },
    }),
    defineRoute('GET /replays/{id}', 'getReplay', 'manage', {
      params,
      summary: 'Show how far a recovery or replay has come',
      responses: { 200: { description: 'The recovery or replay.', schema: schemas.replay } },
      handle: async ({ params }) => ({ status: 200, json: replayJson(await hub.replays.get(params.id)) }),
    }),
    defineRoute('DELETE /replays/{id}', 'abortReplay', 'manage', {
      params,
      summary: 'Abort a recovery or replay',
      description: 'Deliveries already sent stay sent; no more are sent. If it has ended, nothing changes.',
      responses: { 200: { description: 'The recovery or replay as it is now.', schema: schemas.replay } },
      handle: async ({ params, caller }) => {
        await hub.replays.get(params.id)
        await recordAction(hub, caller, { action: 'replay.abort', target: params.id })
        return { status: 200, json: replayJson(await hub.replays.abort(params.id, caller.name)) }
      },
    }),
  ]
}

type Params = z.output<typeof params>
type RecoverQuery = z.output<typeof schemas.recoverQuery>
type RecoverBody = z.output<typeof schemas.recoverBody>
type ReplayBody = z.output<typeof schemas.replayBody>

async function recover(hub: Hub, call: Call<Params, RecoverQuery, RecoverBody>): Promise<Answer> {
  const { params, query, body, caller } = call
  const { name } = await hub.subscribers.get(params.id)
  const options = recoverOptions(query, body)
  const plan = planRecover(options)
  if (body.dry_run === true) return countAnswer(await hub.replays.count(name, plan))
  const details = { ...body, since: options.since.toISOString() }
  await recordAction(hub, caller, { action: 'subscriber.recover', target: name, details })
  return startedAnswer(await hub.recover(name, options, termsOf(body, caller)))
}

async function replay(
  hub: Hub,
  { params, body, caller }: Call<Params, unknown, ReplayBody>,
): Promise<Answer> {
  const { name } = await hub.subscribers.get(params.id)
  const options = replayOptions(body)
  const plan = planReplay(options)
  if (body.dry_run === true) return countAnswer(await hub.replays.count(name, plan))
  await recordAction(hub, caller, { action: 'subscriber.replay', target: name, details: body })
  return startedAnswer(await hub.replay(name, options, termsOf(body, caller)))
}

function termsOf({ again }: { again?: boolean | undefined }, caller: Caller) {
  return { by: caller.name, identical: again === true ? 'again' : 'same' } as const
}

function recoverOptions(query: RecoverQuery, body: RecoverBody): RecoverOptions {
  const since = query.since ?? dateOf(body.since)
  if (since === undefined || (query.since !== undefined && body.since !== undefined)) {
    throw badField('since', 'given in the query or in the body', since === undefined ? undefined : 'both')
  }
  const { dead_letters: deadLetters, rate_per_second: ratePerSecond } = body
  return { since, ...given({ until: dateOf(body.until), deadLetters, ratePerSecond }) }
}

function replayOptions(body: ReplayBody): ReplayOptions {
  const { event_ids: eventIds, event_type: eventType, filter, rate_per_second: ratePerSecond } = body
  const times = { from: dateOf(body.from), to: dateOf(body.to) }
  return given({ ...times, eventIds, eventType, filter, ratePerSecond })
}

function startedAnswer({ replay, isNew }: { replay: Replay; isNew: boolean }): Answer {
  const headers = { location: `/replays/${replay.id}` }
  return { status: isNew ? 202 : 200, json: replayJson(replay), headers }
}

const countJson = writerOf(schemas.replayCount, ({ total, totalIsEstimate }: ReplayCount) => ({
  dry_run: true,
  count: total,
  count_is_estimate: totalIsEstimate || undefined,
}))

function countAnswer(count: ReplayCount): Answer {
  return { status: 200, json: countJson(count) }
}

const replayJson = writerOf(schemas.replay, (replay: Replay) => {
  const { subscription, total, totalIsEstimate, done, skipped, removed } = replay
  const passed = done + skipped + removed
  const isOver = replay.state === 'completed'
  return {
    subscriber_id: subscription.id,
    subscriber: subscription.name,
    total_is_estimate: totalIsEstimate || undefined,
    remaining: isOver ? 0 : Math.max(0, total - passed),
    // The total may be an estimate that is too low, so 100 percent is said only at the end.
    percent: isOver ? 100 : Math.min(99, Math.floor((100 * passed) / Math.max(1, total))),
    reached_event_id: replay.reached,
  }
})
