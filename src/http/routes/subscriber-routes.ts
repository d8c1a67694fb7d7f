import { z } from 'zod'
import type { Hub } from '../../hub.ts'
import { versionsOf } from '../if-match.ts'
import { refuseOwnAddress } from '../own-address.ts'
import { pageAnswer, pageResponse, pagingOf } from '../page-answer.ts'
import { type Call, defineRoute, emptyBody, type Route, type RouteResponse } from '../route.ts'
import { badField } from '../schema-issue.ts'
import { pageQuery } from '../schemas.ts'
import { changeOf, definitionOf, describe, nameFor, recordable } from '../subscriber-document.ts'
import * as schemas from '../subscriber-schemas.ts'
import { recordAction } from './record-action.ts'

const params = z.object({ id: z.uuid() })
const headers = { ETag: 'The version of the subscription, for `If-Match`' }
const current: RouteResponse = {
  description: 'The subscription as it is now.',
  schema: schemas.subscriber,
  headers,
}
const exampleSubscriber = {
  name: 'billing',
  url: 'https://billing.example/hooks',
  event_types: ['invoice.*'],
  tags: 'eu',
  filter: { '/payload/paid': true },
  ordering_key: '/payload/invoice_id',
  retry_backoff_seconds: [5, 30, 300],
  timeout_ms: 10_000,
  headers: { 'x-team': 'billing' },
  public_headers: ['x-team'],
  max_concurrency: 10,
  rate_per_second: 50,
  on_exhausted: 'skip',
  format: 'standard',
  is_active: true,
}
const ifMatch = ' With `If-Match` the call succeeds only if the subscription has not changed since.'

const verbs = {
  pause: {
    status: 'paused',
    summary: 'Pause a subscription',
    description: `Matching events are still stored for the subscription; nothing is leased until it is resumed.${ifMatch}`,
  },
  resume: {
    status: 'active',
    summary: 'Resume a subscription that is paused or suspended',
    description: `A suspended endpoint is tried again at once.${ifMatch}`,
  },
} as const

/** Subscriptions made over HTTP. The subscriptions of handlers are made by the processes that have the handlers. */
export function subscriberRoutes(hub: Hub): Route[] {
  return [
    defineRoute('POST /subscribers', 'createSubscriber', 'manage', {
      summary: 'Create a subscription',
      description:
        'A webhook needs `url` and `event_types`. Only this answer shows its `secret` and the values of headers that `public_headers` does not name. Workers pull from a pull subscription by its name: `GET /events/subscribe?subscription=<name>`.',
      body: { kind: 'json', schema: schemas.newSubscriber, example: exampleSubscriber },
      responses: {
        201: { description: 'The subscription is created.', schema: schemas.createdSubscriber, headers },
      },
      errors: ['BAD_OPTION', 'NAME_TAKEN', 'SECRET_KEY_MISSING'],
      handle: (call) => create(hub, call),
    }),
    defineRoute('GET /subscribers', 'listSubscribers', 'manage', {
      query: pageQuery,
      summary: 'List subscriptions, with those of handlers',
      responses: {
        200: pageResponse(schemas.subscribers, 'A page of subscriptions, oldest first unless `order=desc`.'),
      },
      errors: ['BAD_OPTION'],
      handle: async ({ query, request: { url } }) => {
        const page = await hub.subscribers.list(pagingOf(query))
        const subscribers = page.subscribers.map((one) => describe(one).json)
        return pageAnswer({ subscribers }, { query, url, page })
      },
    }),
    defineRoute('GET /subscribers/{id}', 'getSubscriber', 'manage', {
      params,
      summary: 'Get a subscription',
      responses: { 200: { ...current, description: 'The subscription.' } },
      handle: async ({ params }) => ({ status: 200, ...describe(await hub.subscribers.get(params.id)) }),
    }),
    defineRoute('PATCH /subscribers/{id}', 'changeSubscriber', 'manage', {
      params,
      summary: 'Change a subscription',
      description: `A field that is left out stays as it is, and so does a header; a header that is null is removed. Types, tags, filter and ordering key apply to events published from now on, everything else also to what waits.${ifMatch}`,
      body: { kind: 'json', schema: schemas.subscriberChange, example: { max_concurrency: 20 } },
      responses: { 200: current },
      errors: ['BAD_OPTION', 'CHANGED_MEANWHILE', 'SECRET_KEY_MISSING'],
      handle: async ({ params, body, caller, request }) => {
        const before = await hub.subscribers.get(params.id)
        const change = (now: typeof before) => {
          const { endpoint, ...changed } = changeOf(now, body)
          if (endpoint == null) return changed
          return { ...changed, endpoint: hub.endpoints.define(endpoint, now.endpoint) }
        }
        const draft = change(before)
        if ('endpoint' in draft) await hub.endpoints.checkSealed(draft.endpoint)
        refuseOwnAddress(body.url, request)
        const details = recordable(body)
        await recordAction(hub, caller, { action: 'subscriber.change', target: before.name, details })
        return { status: 200, ...describe(await hub.subscribers.change(which(params, request), change)) }
      },
    }),
    defineRoute('DELETE /subscribers/{id}', 'deleteSubscriber', 'manage', {
      params,
      summary: 'Delete a subscription',
      description: `Deliveries that still wait for the subscription are cancelled, and stay visible. The work queue cannot be deleted.${ifMatch}`,
      responses: { 204: { description: 'The subscription is deleted.' } },
      errors: ['CHANGED_MEANWHILE'],
      handle: async ({ params, caller, request }) => {
        const { name, no } = await hub.subscribers.get(params.id)
        if (no === 0) throw badField('id', 'not that of the work queue', params.id)
        await recordAction(hub, caller, { action: 'subscriber.delete', target: name })
        await hub.subscribers.delete(which(params, request))
        return { status: 204 }
      },
    }),
    ...(['pause', 'resume'] as const).map((verb) => subscriberVerb(hub, verb)),
    defineRoute('POST /subscribers/{id}/rotate-secret', 'rotateSecret', 'manage', {
      params,
      summary: 'Sign with a new secret',
      description: `For \`overlap_seconds\` deliveries are also signed with the old secrets, so that receivers can change over.${ifMatch}`,
      body: { kind: 'json', schema: schemas.rotation, isOptional: true, example: { overlap_seconds: 3600 } },
      responses: {
        200: { description: 'The new secret. It is not shown again.', schema: schemas.rotated, headers },
      },
      errors: ['CHANGED_MEANWHILE', 'SECRET_KEY_MISSING'],
      handle: async ({ params, body, caller, request }) => {
        const { overlap_seconds: overlapSeconds, secret } = schemas.rotation.parse(body ?? {})
        const { name } = await hub.subscribers.get(params.id)
        const details = { overlap_seconds: overlapSeconds }
        await recordAction(hub, caller, { action: 'subscriber.rotate_secret', target: name, details })
        const overlapMs = overlapSeconds * 1000
        const rotated = await hub.endpoints.rotateSecret(which(params, request), { overlapMs, secret })
        const json = { id: params.id, secret: rotated.secret }
        return { status: 200, json, headers: { etag: `"${rotated.version}"` } }
      },
    }),
    defineRoute('POST /subscribers/{id}/test', 'testSubscriber', 'manage', {
      params,
      summary: 'Send a test delivery now',
      description:
        'Sends an event of type `posthorn.test`, signed like every delivery, whatever the state of the subscription. The answer says how it went; nothing is stored.',
      body: emptyBody,
      responses: { 200: { description: 'How the test went.', schema: schemas.testResult } },
      errors: ['SECRET_KEY_WRONG'],
      handle: async ({ params, caller, signal }) => {
        const { name } = await hub.subscribers.get(params.id)
        await recordAction(hub, caller, { action: 'subscriber.test', target: name })
        const { outcome, exchange, deliveryId } = await hub.endpoints.test(params.id, signal)
        const { statusCode, errorClass, error, response, timings } = exchange
        const json = {
          delivered: outcome.kind === 'succeeded',
          webhook_id: deliveryId,
          status_code: statusCode,
          error_class: errorClass,
          error,
          response,
          timings,
        }
        return { status: 200, json }
      },
    }),
  ]
}

type CreateCall = Call<unknown, unknown, z.output<typeof schemas.newSubscriber>>

async function create(hub: Hub, { body, caller, request }: CreateCall) {
  const { secret, ...shown } = body
  const name = nameFor(body)
  const { definition, endpoint } = definitionOf({ ...body, name }, hub.endpoints.timeoutMs)
  const status = body.is_active === false ? 'paused' : 'active'
  const action = { action: 'subscriber.create', target: name, details: recordable(shown) }
  if (endpoint === null) {
    if (secret !== undefined) throw badField('secret', 'left out, since nothing is signed', secret)
    await recordAction(hub, caller, action)
    return {
      status: 201,
      ...describe(await hub.subscribers.create({ definition, endpoint, status, secret: null })),
    }
  }
  refuseOwnAddress(endpoint.url, request)
  hub.endpoints.define(endpoint, null)
  await recordAction(hub, caller, action)
  const made = await hub.endpoints.create({ definition, endpoint, status, secret })
  // Only this answer shows the values of headers, as it shows the secret.
  const headers = lowerCased(endpoint.headers)
  return { status: 201, ...describe(made.subscriber, { headers, secret: made.secret }) }
}

function subscriberVerb(hub: Hub, verb: keyof typeof verbs): Route {
  const { status, summary, description } = verbs[verb]
  return defineRoute(`POST /subscribers/{id}/${verb}`, `${verb}Subscriber`, 'manage', {
    params,
    summary,
    description,
    body: emptyBody,
    responses: { 200: current },
    errors: ['CHANGED_MEANWHILE'],
    handle: async ({ params, caller, request }) => {
      const { name } = await hub.subscribers.get(params.id)
      await recordAction(hub, caller, { action: `subscriber.${verb}`, target: name })
      const now = await hub.subscribers.change(which(params, request), () => ({ status }))
      if (verb === 'resume') hub.pull.look()
      return { status: 200, ...describe(now) }
    },
  })
}

/** The subscription that is meant, in one of the versions that `If-Match` names. */
function which(
  { id }: { id: string },
  { headers }: Call<unknown, unknown, unknown>['request'],
): { id: string; versions: readonly number[] | null } {
  return { id, versions: versionsOf(headers) }
}

function lowerCased(headers: Readonly<Record<string, string | null>>): object {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
