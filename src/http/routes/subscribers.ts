import { z } from 'zod'
import { scheduleRetry } from '../../domain/retry.ts'
import type { Subscription, SubscriptionOptions } from '../../domain/subscription.ts'
import { PosthornError } from '../../errors.ts'
import type { DatedSubscription, Hub } from '../../hub.ts'
import { pageOf } from '../page.ts'
import { readAnyTags } from '../read-request.ts'
import { defineRoute, type Route } from '../route.ts'
import { pageQuery } from '../schemas.ts'
import * as schemas from '../subscriber-schemas.ts'
import { record } from './manage.ts'

const params = z.object({ id: z.uuid() })
type Change = z.output<typeof schemas.subscriberChange>

/** Subscriptions that are made over HTTP; those of handlers are made by the processes that have the handlers. */
export function subscriberRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'POST', path: '/subscribers', name: 'createSubscriber', scope: 'manage' },
      summary: 'Create a subscription',
      description: 'Whoever pulls from it names it: `GET /events/subscribe?subscription=<name>`.',
      body: {
        ...{ kind: 'json', schema: schemas.newSubscriber },
        example: {
          name: 'billing',
          via: 'pull',
          event_types: ['invoice.*'],
          tags: 'eu',
          max_concurrency: 10,
        },
      },
      responses: { 201: { description: 'Created.', schema: schemas.subscriber } },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'NAME_TAKEN'],
      handle: async ({ body, caller }) => {
        const { name, via, event_types: types, is_active: isActive, ...change } = body
        if (via !== 'pull') {
          throw new PosthornError('BAD_FIELD', { field: 'via', expected: 'pull', value: via })
        }
        const options = optionsOf(name, change)
        await record(hub, caller, 'subscriber.create', name, body)
        const made = await hub.directory.create(types, options, isActive === false ? 'paused' : 'active')
        return { status: 201, json: wireOf(made) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/subscribers', name: 'listSubscribers', scope: 'manage', query: pageQuery },
      summary: 'List subscriptions, those of handlers included',
      responses: { 200: { description: 'The oldest first.', schema: schemas.subscribers } },
      errors: ['BAD_FIELD'],
      handle: async ({ query }) => {
        const { items, fields } = pageOf(await hub.directory.list(), query)
        return { status: 200, json: { subscribers: items.map(wireOf), ...fields } }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/subscribers/{id}', name: 'getSubscriber', scope: 'manage', params },
      summary: 'Get a subscription',
      responses: { 200: { description: 'It.', schema: schemas.subscriber } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params }) => ({ status: 200, json: wireOf(await hub.directory.get(params.id)) }),
    }),
    defineRoute({
      ...{ method: 'PATCH', path: '/subscribers/{id}', name: 'changeSubscriber', scope: 'manage', params },
      summary: 'Change a subscription',
      description:
        'What is left out stays as it is. Types and tags count for events that are published from now on.',
      body: { kind: 'json', schema: schemas.subscriberChange, example: { max_concurrency: 20 } },
      responses: { 200: { description: 'As it is now.', schema: schemas.subscriber } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ params, body, caller }) => {
        const before = await hub.directory.get(params.id)
        const { is_active: isActive, event_types: types, ...change } = body
        const changes = Object.keys(body).some((name) => name !== 'is_active')
        if (changes) checkPull(before)
        const changed = (now: Subscription) => ({
          types: types ?? now.types,
          options: changedOptions(now, change),
        })
        if (changes) changed(before)
        await record(hub, caller, 'subscriber.change', before.name, body)
        if (changes) await hub.directory.change(params.id, changed)
        if (isActive !== undefined) await hub.directory.setStatus(params.id, isActive ? 'active' : 'paused')
        return { status: 200, json: wireOf(await hub.directory.get(params.id)) }
      },
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/subscribers/{id}', name: 'deleteSubscriber', scope: 'manage', params },
      summary: 'End a subscription',
      description: 'What still waits for it is cancelled, and stays visible. The work queue cannot be ended.',
      responses: { 204: { description: 'Ended.' } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params, caller }) => {
        const { name, no } = await hub.directory.get(params.id)
        if (no === 0)
          throw new PosthornError('BAD_FIELD', {
            field: 'id',
            expected: 'not that of the work queue',
            value: params.id,
          })
        await record(hub, caller, 'subscriber.delete', name, {})
        await hub.directory.delete(params.id)
        return { status: 204 }
      },
    }),
    ...(['pause', 'resume'] as const).map((verb) =>
      defineRoute({
        ...{
          method: 'POST',
          path: `/subscribers/{id}/${verb}`,
          name: `${verb}Subscriber`,
          scope: 'manage',
          params,
        },
        summary: verb === 'pause' ? 'Hold everything that is owed to it' : 'Let it go on',
        description:
          verb === 'pause'
            ? 'Events that it wants are still stored for it; nothing is leased until it is resumed.'
            : '',
        body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
        responses: { 200: { description: 'As it is now.', schema: schemas.subscriber } },
        errors: ['NOT_FOUND', 'BAD_FIELD'],
        handle: async ({ params, caller }) => {
          const { name } = await hub.directory.get(params.id)
          await record(hub, caller, `subscriber.${verb}`, name, {})
          await hub.directory.setStatus(params.id, verb === 'pause' ? 'paused' : 'active')
          if (verb === 'resume') hub.pull.look()
          return { status: 200, json: wireOf(await hub.directory.get(params.id)) }
        },
      }),
    ),
  ]
}

function checkPull({ via, name }: DatedSubscription): void {
  if (via === 'pull') return
  const expected = 'left out: the process that has the handler says what it wants'
  throw new PosthornError('BAD_FIELD', { field: name, expected, value: via })
}

function optionsOf(name: string, change: Omit<Change, 'event_types' | 'is_active'>): SubscriptionOptions {
  const { tags, on_exhausted, lease_seconds, max_concurrency, rate_per_second, key_concurrency } = change
  const { filter, ordering_key: orderingKey } = change
  const retry = retryOf(change)
  const wanted = tags == null ? null : readAnyTags(tags)
  return {
    name,
    ...(wanted !== null && { tags: wanted }),
    ...(filter != null && { filter }),
    ...(orderingKey != null && { orderingKey }),
    ...(on_exhausted !== undefined && { onExhausted: on_exhausted }),
    ...(lease_seconds !== undefined && { leaseMs: lease_seconds * 1000 }),
    ...(max_concurrency != null && { maxConcurrency: max_concurrency }),
    ...(rate_per_second != null && { ratePerSecond: rate_per_second }),
    ...(key_concurrency != null && { keyConcurrency: key_concurrency }),
    ...(retry !== undefined && { retry }),
  }
}

function retryOf(change: Change): SubscriptionOptions['retry'] {
  const { retry_backoff_seconds: schedule, retry_delay_seconds: delay, max_retries: failuresMax } = change
  if (schedule != null) {
    if (failuresMax !== undefined && failuresMax !== schedule.length + 1) {
      const expected = `${schedule.length + 1} or left out, since retry_backoff_seconds has ${schedule.length} entries`
      throw new PosthornError('BAD_FIELD', { field: 'max_retries', expected, value: failuresMax })
    }
    return scheduleRetry(schedule.map((seconds) => Math.round(seconds * 1000)))
  }
  if (delay === undefined && failuresMax === undefined) return undefined
  return { kind: 'fixed', delayMs: Math.round((delay ?? 300) * 1000), failuresMax: failuresMax ?? 3 }
}

/** What a change makes of a subscription. What it does not name stays as it is, whatever kind of retries that is. */
function changedOptions(now: Subscription, change: Change): SubscriptionOptions {
  const {
    retry_backoff_seconds: schedule,
    retry_delay_seconds: delay,
    max_retries: failuresMax,
    ...rest
  } = change
  const kept: Change = {
    ...{
      tags: now.tags?.join(',') ?? null,
      filter: now.filter as Change['filter'],
      ordering_key: now.orderingKey,
      on_exhausted: now.onExhausted,
      lease_seconds: now.leaseMs / 1000,
    },
    ...{ max_concurrency: now.maxConcurrency, rate_per_second: now.ratePerSecond },
    key_concurrency: now.keyConcurrency,
  }
  const isKept = schedule === undefined && delay === undefined && failuresMax === undefined
  const retry = isKept ? now.retry : retryOf({ ...keptRetry(now, change), ...change })
  return { ...optionsOf(now.name, { ...kept, ...rest }), ...(retry !== undefined && { retry }) }
}

/** A schedule takes the place of a delay and of the failures allowed, and a delay that of a schedule. */
function keptRetry(
  { retry }: Subscription,
  { retry_backoff_seconds: given, retry_delay_seconds: delay }: Change,
): Change {
  if (given != null) return {}
  if (retry.kind === 'schedule' && given === undefined && delay === undefined) {
    return { retry_backoff_seconds: retry.delaysMs.map((ms) => ms / 1000) }
  }
  return {
    ...(retry.kind === 'fixed' && { retry_delay_seconds: retry.delayMs / 1000 }),
    max_retries: retry.failuresMax,
  }
}

function wireOf(subscription: DatedSubscription) {
  const { id, name, via, types, tags, status, onExhausted, retry, leaseMs } = subscription
  return {
    ...{ id, name, via, event_types: types, tags: tags?.join(',') ?? null },
    ...{ filter: subscription.filter, ordering_key: subscription.orderingKey },
    ...{ status, is_active: status === 'active', on_exhausted: onExhausted },
    retry_backoff_seconds: retry.kind === 'schedule' ? retry.delaysMs.map((ms) => ms / 1000) : null,
    retry_delay_seconds: retry.kind === 'fixed' ? retry.delayMs / 1000 : null,
    ...{ max_retries: retry.failuresMax, lease_seconds: leaseMs / 1000 },
    max_concurrency: subscription.maxConcurrency,
    rate_per_second: subscription.ratePerSecond,
    key_concurrency: subscription.keyConcurrency,
    ...{ created_at: subscription.createdAt, updated_at: subscription.updatedAt },
  }
}
