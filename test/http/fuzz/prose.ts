import type { Aim, Sent } from './plan.ts'
import { isPlain } from './texts.ts'
import { isRecord, membersOf, type Tree } from './tree.ts'

type Fields = Readonly<Record<string, unknown>>
type Rule = (request: { readonly query: Fields; readonly body: Fields }) => boolean

/** Rules between fields, which the document tells in words. Whether they are kept is for other tests. */
export function breaksProse({ name }: Aim, { query, headers, bytes }: Sent): boolean {
  // It does not count for a batch, and must not say something else than the body.
  if (headers.some(([header]) => /^(x-)?idempotency-key$/i.test(header))) return true
  const body: unknown = bytes === undefined ? {} : JSON.parse(bytes.toString())
  const request = { query: Object.fromEntries(query), body: (body ?? {}) as Fields }
  if (!isStorable(request) || hasHugeNumber(request)) return true
  return rules[name]?.(request) ?? false
}

const rules: Readonly<Record<string, Rule>> = {
  publishEvent: ({ body }) => breaksEventRules(body),
  publishEvents: ({ body }) =>
    (Array.isArray(body) ? body : (body.events as Fields[])).some(breaksEventRules),
  subscribe: ({ query }) => lacksTags(query) && query.subscription === undefined,
  subscribePost: ({ query }) => lacksTags(query) && query.subscription === undefined,
  startEvent: ({ body }) => lacksClaim(body),
  heartbeat: ({ body }) => lacksClaim(body),
  releaseEvent: ({ body }) => lacksClaim(body),
  completeEvent: ({ body }) => lacksClaim(body),
  failEvent: ({ body }) => lacksClaim(body),
  listEvents: ({ query }) => query.cursor !== undefined,
  cancelEvents: ({ body: { ids, reason, cursor, ...filter } }) =>
    cursor !== undefined || Object.keys(filter).length > 0 === (ids !== undefined),
  createSubscriber: ({ body }) =>
    body.via !== 'pull' || body.name === undefined || hasWebhookFields(body) || breaksRetryRules(body),
  recoverSubscriber: ({ query, body }) =>
    (query.since === undefined) === (body.since === undefined) ||
    isUnordered(query.since ?? body.since, body.until),
  replaySubscriber: ({ body: { rate_per_second: _rate, dry_run: _dry, again: _again, filter, ...bounds } }) =>
    (filter == null && Object.keys(bounds).length === 0) || isUnordered(bounds.from, bounds.to),
  listReplays: ({ query }) => query.cursor !== undefined,
  listDeliveries: ({ query }) => query.cursor !== undefined,
  listDeadLetters: ({ query }) => query.cursor !== undefined,
  listSubscribers: ({ query }) => query.cursor !== undefined,
  listWorkers: ({ query }) => query.cursor !== undefined,
  listQueues: ({ query }) => query.cursor !== undefined,
  getQueue: ({ query }) => query.cursor !== undefined,
  listCheckpoints: ({ query }) => query.cursor !== undefined,
  listRecoveries: ({ query }) => query.cursor !== undefined,
  // What is above the limit depends on what is set already.
  configureQueue: ({ body }) => body.highWatermark !== undefined || body.maxQueueDepth !== undefined,
  listLanes: ({ query }) => query.cursor !== undefined,
  // It goes with a path that has - in its place.
  getLane: ({ query }) => query.key !== undefined,
  retryLane: ({ query }) => query.key !== undefined,
  skipLane: ({ query }) => query.key !== undefined,
  discardLane: ({ query }) => query.key !== undefined,
  retryDeadLetters: ({ body: { ids, ...filter } }) => Object.keys(filter).length > 0 === (ids !== undefined),
  // The work queue cannot be ended.
  deleteSubscriber: () => true,
  // Whether it has a schedule is for the subscription to say.
  changeSubscriber: ({ body }) =>
    body.name !== undefined || body.max_retries !== undefined || hasWebhookFields(body),
  // Only webhooks have secrets, and something to try.
  rotateSecret: () => true,
  testSubscriber: () => true,
}

/** Only webhooks have these, and few texts are URLs. */
function hasWebhookFields(body: Fields): boolean {
  return ['url', 'headers', 'public_headers', 'format', 'timeout_ms', 'outcomes', 'secret'].some(
    (field) => field in body,
  )
}

function breaksEventRules(event: Fields): boolean {
  if ('specversion' in event) return breaksCloudEventRules(event)
  const {
    type = event.event_type ?? event.name ?? event.pattern,
    title,
    tags,
    run_at: runAt,
    expires_at: expiresAt,
  } = event
  const { correlationId, causationId } = (event.metadata ?? {}) as Fields
  const sames = [
    [type, event.event_type, event.name, event.pattern],
    [event.ordering_key, event.group_id],
    [event.idempotency_key, event.eventId],
    [event.correlation_id, correlationId],
    [event.causation_id, causationId],
  ]
  if (sames.some((names) => new Set(names.filter((one) => one != null)).size > 1)) return true
  const isWork = title != null && tags != null && String(tags).replaceAll(',', '').trim() !== ''
  if (type == null && !isWork) return true
  return (
    typeof runAt === 'string' && typeof expiresAt === 'string' && Date.parse(runAt) >= Date.parse(expiresAt)
  )
}

function isUnordered(first: unknown, last: unknown): boolean {
  return typeof first === 'string' && typeof last === 'string' && Date.parse(first) >= Date.parse(last)
}

function breaksCloudEventRules({ data, data_base64: base64, ...attributes }: Fields): boolean {
  if (data !== undefined && base64 !== undefined) return true
  return Object.keys(attributes).some((name) => !/^[a-z0-9]{1,64}$/.test(name))
}

function lacksTags({ tags }: Fields): boolean {
  return tags === undefined
}

function lacksClaim({ worker_id: worker, lease_token: token }: Fields): boolean {
  return token === undefined
    ? worker === undefined
    : !/^[kr][0-9a-z]{1,11}(-[0-9a-z]{1,10}){2}$/.test(String(token))
}

function breaksRetryRules({ retry_backoff_seconds: schedule, max_retries: failuresMax }: Fields): boolean {
  return Array.isArray(schedule) && failuresMax !== undefined && failuresMax !== schedule.length + 1
}

/** What is trimmed and what comes twice is forgiven, so more is accepted than a pattern can say. */
export function hasLooseTags({ query, body }: Sent): boolean {
  const given: Tree[] = query.flatMap(([name, value]) => (name === 'tags' ? [value] : []))
  const events = isRecord(body as Tree)
    ? membersOf(body as Tree).find(([name]) => name === 'events')?.[1]
    : undefined
  for (const one of [body as Tree, ...(Array.isArray(events) ? (events as readonly Tree[]) : [])]) {
    given.push(...membersOf(one).flatMap(([name, value]) => (name === 'tags' ? [value] : [])))
  }
  const texts = given.map((tags) => (Array.isArray(tags) ? tags.join(',') : String(tags)))
  return texts.some((text) => {
    const tags = text.split(',').map((tag) => tag.trim())
    return [...new Set(tags)].filter((tag) => tag !== '').join(',') !== text
  })
}

/** Whole numbers are below 2^53. */
function hasHugeNumber(value: unknown): boolean {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER
  return typeof value === 'object' && value !== null && Object.values(value).some(hasHugeNumber)
}

/** Texts hold neither NUL nor half of a surrogate pair; payloads may. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return isPlain(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(
    ([name, one]) => name === 'payload' || name === 'data' || (isPlain(name) && isStorable(one)),
  )
}
