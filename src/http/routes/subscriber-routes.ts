import { z } from 'zod'
import { PosthornError } from '../../errors.ts'
import type { Hub } from '../../hub.ts'
import { versionsOf } from '../if-match.ts'
import { linkTo, pageFieldsOf, pagingOf } from '../list-page.ts'
import { refuseOwnDoor } from '../own-door.ts'
import { type Call, defineRoute, type Route, type RouteResponse } from '../route.ts'
import { pageQuery } from '../schemas.ts'
import { changeOf, definitionOf, describe, nameFor, recordable } from '../subscriber-document.ts'
import * as schemas from '../subscriber-schemas.ts'
import { record } from './event-action-routes.ts'

const params = z.object({ id: z.uuid() })
const headers = { ETag: 'Its version, for `If-Match`.' }
const current: RouteResponse = { description: 'As it is now.', schema: schemas.subscriber, headers }
const ifMatch = ' With `If-Match` only if it has not been changed since.'

/** Subscriptions that are made over HTTP; those of handlers are made by the processes that have the handlers. */
export function subscriberRoutes(hub: Hub): Route[] {
  return [
    defineRoute({
      ...{ method: 'POST', path: '/subscribers', name: 'createSubscriber', scope: 'manage' },
      summary: 'Create a subscription',
      description:
        'A webhook needs `url` and `event_types`; its `secret`, and the values of `headers` that are not among `public_headers`, are shown in this answer only. Whoever pulls names it: `GET /events/subscribe?subscription=<name>`.',
      body: {
        ...{ kind: 'json', schema: schemas.newSubscriber },
        example: {
          ...{
            name: 'billing',
            url: 'https://billing.example/hooks',
            event_types: ['invoice.*'],
            tags: 'eu',
          },
          ...{ filter: { '/payload/paid': true }, ordering_key: '/payload/invoice_id' },
          ...{ retry_backoff_seconds: [5, 30, 300], timeout_ms: 10_000, headers: { 'x-team': 'billing' } },
          public_headers: ['x-team'],
          ...{
            max_concurrency: 10,
            rate_per_second: 50,
            on_exhausted: 'skip',
            format: 'standard',
            is_active: true,
          },
        },
      },
      responses: { 201: { description: 'Created.', schema: schemas.createdSubscriber, headers } },
      errors: ['BAD_FIELD', 'BAD_OPTION', 'NAME_TAKEN', 'SECRET_KEY_MISSING'],
      handle: async ({ body, caller, request }) => {
        const { secret, ...shown } = body
        const name = nameFor(body)
        const { definition, endpoint } = definitionOf({ ...body, name }, hub.endpoints.timeoutMs)
        const status = body.is_active === false ? 'paused' : 'active'
        if (endpoint === null) {
          if (secret !== undefined) throw refused('secret', 'left out, since nothing is signed', 'given')
          await record(hub, caller, 'subscriber.create', name, recordable(shown))
          const made = await hub.subscribers.create({ definition, endpoint, status, secret: null })
          return { status: 201, ...describe(made) }
        }
        refuseOwnDoor(endpoint.url, request)
        hub.endpoints.define(endpoint, null)
        await record(hub, caller, 'subscriber.create', name, recordable(shown))
        const made = await hub.endpoints.create({ definition, endpoint, status, secret })
        // Values are shown this once, as the secret is.
        const headers = lowerCased(endpoint.headers)
        return { status: 201, ...describe(made.subscriber, { headers, secret: made.secret }) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/subscribers', name: 'listSubscribers', scope: 'manage', query: pageQuery },
      summary: 'List subscriptions, those of handlers included',
      responses: {
        200: {
          description: 'The oldest first, unless `order=desc`.',
          schema: schemas.subscribers,
          headers: { link: 'rel="next": the next page' },
        },
      },
      errors: ['BAD_FIELD', 'BAD_OPTION'],
      handle: async ({ query, request }) => {
        const { subscribers, total, nextCursor } = await hub.subscribers.list(pagingOf(query))
        const json = {
          subscribers: subscribers.map((one) => describe(one).json),
          ...pageFieldsOf(query, { total, nextCursor }),
        }
        return { status: 200, json, headers: linkTo(request.url, nextCursor) }
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/subscribers/{id}', name: 'getSubscriber', scope: 'manage', params },
      summary: 'Get a subscription',
      responses: { 200: { description: 'It.', schema: schemas.subscriber, headers } },
      errors: ['NOT_FOUND', 'BAD_FIELD'],
      handle: async ({ params }) => ({ status: 200, ...describe(await hub.subscribers.get(params.id)) }),
    }),
    defineRoute({
      ...{ method: 'PATCH', path: '/subscribers/{id}', name: 'changeSubscriber', scope: 'manage', params },
      summary: 'Change a subscription',
      description: `What is left out stays as it is, a header as well; one that is null is taken away. Types, tags, filter and ordering key count for events that are published from now on, all else for what waits too.${ifMatch}`,
      body: { kind: 'json', schema: schemas.subscriberChange, example: { max_concurrency: 20 } },
      responses: { 200: current },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'BAD_OPTION', 'CHANGED_MEANWHILE', 'SECRET_KEY_MISSING'],
      handle: async ({ params, body, caller, request }) => {
        const before = await hub.subscribers.get(params.id)
        const change = (now: typeof before) => {
          const { endpoint, ...changed } = changeOf(now, body)
          if (endpoint == null) return changed
          return { ...changed, endpoint: hub.endpoints.define(endpoint, now.endpoint) }
        }
        const draft = change(before)
        if ('endpoint' in draft) await hub.endpoints.checkSealed(draft.endpoint)
        refuseOwnDoor(body.url, request)
        await record(hub, caller, 'subscriber.change', before.name, recordable(body))
        return { status: 200, ...describe(await hub.subscribers.change(which(params, request), change)) }
      },
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/subscribers/{id}', name: 'deleteSubscriber', scope: 'manage', params },
      summary: 'End a subscription',
      description: `What still waits for it is cancelled, and stays visible. The work queue cannot be ended.${ifMatch}`,
      responses: { 204: { description: 'Ended.' } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'CHANGED_MEANWHILE'],
      handle: async ({ params, caller, request }) => {
        const { name, no } = await hub.subscribers.get(params.id)
        if (no === 0) throw refused('id', 'not that of the work queue', params.id)
        await record(hub, caller, 'subscriber.delete', name, {})
        await hub.subscribers.delete(which(params, request))
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
            ? `Events that it wants are still stored for it; nothing is leased until it is resumed.${ifMatch}`
            : `Also an endpoint that was suspended is tried again at once.${ifMatch}`,
        body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
        responses: { 200: current },
        errors: ['NOT_FOUND', 'BAD_FIELD', 'CHANGED_MEANWHILE'],
        handle: async ({ params, caller, request }) => {
          const { name } = await hub.subscribers.get(params.id)
          await record(hub, caller, `subscriber.${verb}`, name, {})
          const status = verb === 'pause' ? 'paused' : 'active'
          const now = await hub.subscribers.change(which(params, request), () => ({ status }))
          if (verb === 'resume') hub.pull.look()
          return { status: 200, ...describe(now) }
        },
      }),
    ),
    defineRoute({
      ...{
        method: 'POST',
        path: '/subscribers/{id}/rotate-secret',
        name: 'rotateSecret',
        scope: 'manage',
        params,
      },
      summary: 'Sign with a new secret',
      description: `Deliveries are signed with the old ones as well for \`overlap_seconds\`, so that receivers can change over.${ifMatch}`,
      body: { kind: 'json', schema: schemas.rotation, isOptional: true, example: { overlap_seconds: 3600 } },
      responses: { 200: { description: 'The new one, shown this once.', schema: schemas.rotated, headers } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'CHANGED_MEANWHILE', 'SECRET_KEY_MISSING'],
      handle: async ({ params, body, caller, request }) => {
        const { overlap_seconds: overlapSeconds, secret } = schemas.rotation.parse(body ?? {})
        const { name } = await hub.subscribers.get(params.id)
        await record(hub, caller, 'subscriber.rotate_secret', name, { overlap_seconds: overlapSeconds })
        const overlapMs = overlapSeconds * 1000
        const rotated = await hub.endpoints.rotateSecret(which(params, request), { overlapMs, secret })
        const json = { id: params.id, secret: rotated.secret }
        return { status: 200, json, headers: { etag: `"${rotated.version}"` } }
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/subscribers/{id}/test', name: 'testSubscriber', scope: 'manage', params },
      summary: 'Send a test delivery now',
      description:
        'An event of type `posthorn.test`, signed as all are, whatever the state of the subscriber. The answer says how it went; nothing of it is kept.',
      body: { kind: 'json', schema: z.strictObject({}), isOptional: true },
      responses: { 200: { description: 'How it went.', schema: schemas.testResult } },
      errors: ['NOT_FOUND', 'BAD_FIELD', 'SECRET_KEY_WRONG'],
      handle: async ({ params, caller, signal }) => {
        const { name } = await hub.subscribers.get(params.id)
        await record(hub, caller, 'subscriber.test', name, {})
        const { outcome, exchange, deliveryId } = await hub.endpoints.test(params.id, signal)
        const { statusCode, errorClass, error, response, timings } = exchange
        const delivered = outcome.kind === 'succeeded'
        const json = { delivered, webhook_id: deliveryId, status_code: statusCode, error_class: errorClass }
        return { status: 200, json: { ...json, error, response, timings } }
      },
    }),
  ]
}

/** The one that is meant, as the caller has seen it if that is said. */
function which(
  { id }: { id: string },
  { headers }: Call<unknown, unknown, unknown>['request'],
): { id: string; versions: readonly number[] | null } {
  return { id, versions: versionsOf(headers) }
}

function lowerCased(headers: Readonly<Record<string, string | null>>): object {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

function refused(field: string, expected: string, value: string): PosthornError {
  return new PosthornError('BAD_FIELD', { field, expected, value })
}
