import { type Connection, type Database, defineStatement } from '../db/database.ts'
import { parseFilter, parsePointer } from '../domain/filter.ts'
import type { Subscription, SubscriptionDefinition } from '../domain/subscription.ts'
import { lockAdmissions } from '../engine/admit-statements.ts'
import { followPromotion } from '../engine/promotions.ts'
import { PosthornError } from '../errors.ts'
import {
  addSecret,
  type EndpointChange,
  type SealedSecret,
  writeEndpoint,
} from '../webhooks/send/endpoint-rows.ts'
import { getSubscriber, type Subscriber } from './subscribers.ts'
import { type SubscriptionRow, subscriptionColumns, subscriptionFromRow } from './subscription-row.ts'

/**
 * Makes the subscription what the definition says, creating it if need be. From the commit on, every publish
 * that begins anywhere is routed to it.
 */
export async function upsertSubscription(
  db: Database,
  definition: SubscriptionDefinition,
): Promise<{ subscription: Subscription; before: Subscription | undefined }> {
  return db.transaction(async (tx) => {
    await lockName(tx, definition.name)
    const before = await findSubscription(tx, db, definition.name)
    if (before !== undefined && before.via !== definition.via) {
      const expected = `the name of a ${definition.via} subscription`
      const value = `${definition.name}, which is a ${before.via} subscription`
      throw new PosthornError('BAD_OPTION', { option: 'name', expected, value })
    }
    return { subscription: await writeSubscription(tx, db, definition), before }
  })
}

async function writeSubscription(
  tx: Connection,
  db: { readonly schema: string },
  definition: SubscriptionDefinition,
): Promise<Subscription> {
  await followPromotion(tx, db)
  const [row] = await tx.run<SubscriptionRow>(upsertStatement(db), [
    definition.name,
    definition.via,
    definition.types,
    definition.tags,
    definition.filter === null ? null : JSON.stringify(definition.filter),
    definition.filter === null ? null : JSON.stringify(parseFilter(definition.filter)),
    definition.orderingKey,
    definition.orderingKey === null ? null : parsePointer('ordering_key', definition.orderingKey),
    definition.onExhausted,
    JSON.stringify(definition.retry),
    definition.leaseMs,
    definition.timeoutMs,
    definition.maxConcurrency,
    definition.ratePerSecond,
    definition.keyConcurrency,
    definition.storage,
    definition.queue.maxQueueDepth,
    definition.queue.highWatermark,
    definition.queue.onFull,
    definition.queue.batchSize,
    definition.queue.processingInterval,
    definition.queue.persistenceThreshold,
  ])
  const subscription = subscriptionFromRow(row as SubscriptionRow)
  await tx.run(routeStatement(db), [subscription.no, definition.types])
  await tx.run(limitStatement(db), [subscription.no])
  return subscription
}

export async function findSubscription(
  tx: Connection,
  db: { readonly schema: string },
  name: string,
): Promise<Subscription | undefined> {
  const [row] = await tx.run<SubscriptionRow>(findStatement(db), [name])
  return row && subscriptionFromRow(row)
}

/** A subscription that is to be made, or what is to be made of one. */
export interface SubscriberDefinition {
  readonly definition: SubscriptionDefinition
  /** Where its webhooks go; null: it has none. */
  readonly endpoint: EndpointChange | null
}

export interface NewSubscriber extends SubscriberDefinition {
  readonly status: 'active' | 'paused'
  /** What its webhooks are signed with. */
  readonly secret: SealedSecret | null
}

/** Makes one that must not exist yet, in the state given. */
export async function createSubscriber(
  db: Database,
  { definition, status, endpoint, secret }: NewSubscriber,
): Promise<Subscriber> {
  return db.transaction(async (tx) => {
    await lockName(tx, definition.name)
    if ((await findSubscription(tx, db, definition.name)) !== undefined) {
      throw new PosthornError('NAME_TAKEN', { name: definition.name })
    }
    const { no, id } = await writeSubscription(tx, db, definition)
    if (endpoint !== null) await writeEndpoint(tx, db, no, endpoint)
    if (secret !== null) await addSecret(tx, db, { subscription: no, ...secret, overlapMs: 0 })
    if (status === 'paused') await tx.run(statusStatement(db), [id, status])
    return (await getSubscriber(tx, db, id)) as Subscriber
  })
}

export interface ChangeRequest {
  readonly id: string
  /** Only if it is at one of these; null: in any case. */
  readonly versions: readonly number[] | null
}

/**
 * Does something to one as it is now; whoever else changes or ends it waits. Throws NOT_FOUND, and CHANGED_MEANWHILE if
 * it is not what the caller has seen.
 */
export async function changeSubscriber<T>(
  db: Database,
  { id, versions }: ChangeRequest,
  change: (tx: Connection, before: Subscriber) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.run(holdStatement(db), [id])
    const before = await getSubscriber(tx, db, id)
    if (before === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscriber', id })
    if (versions !== null && !versions.includes(before.version)) {
      throw new PosthornError('CHANGED_MEANWHILE', { id, version: before.version })
    }
    return change(tx, before)
  })
}

/** Inside the transaction of such a change. */
export async function redefine(
  tx: Connection,
  db: { readonly schema: string },
  { definition, endpoint }: SubscriberDefinition,
): Promise<void> {
  const { no } = await writeSubscription(tx, db, definition)
  if (endpoint !== null) await writeEndpoint(tx, db, no, endpoint)
}

/** Held to the end of the transaction, so that of two callers with one name only one finds it free. */
async function lockName(tx: Connection, name: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtext($1))', [`posthorn subscription ${name}`])
}

/** A paused one is owed what it wants and gives out nothing; a draining one gives out what was there when it began to. */
export type SetStatus = 'active' | 'paused' | 'draining'

/** Inside the transaction of such a change. */
export async function setStatus(
  tx: Connection,
  db: { readonly schema: string },
  { id, status }: { id: string; status: SetStatus },
): Promise<void> {
  // While nothing is admitted: an admission that does not see the fence must not let in what is beyond it.
  if (status === 'draining') await tx.run(lockAdmissions(db), [])
  await tx.run(statusStatement(db), [id, status])
}

export async function listSubscriptions(db: Database): Promise<Subscription[]> {
  return (await db.run<SubscriptionRow>(listStatement(db), [])).map(subscriptionFromRow)
}

/** Says that a live handler of these subscriptions exists somewhere. */
export async function touchHandlers(db: Database, subscriptions: readonly number[]): Promise<void> {
  await db.run(touchStatement(db), [subscriptions])
}

/** Ends a subscription: nothing more is routed to it. What still waits for it is cancelled by upkeep. */
export async function deleteSubscription(
  tx: Connection,
  db: { readonly schema: string },
  which: { readonly name: string } | { readonly id: string },
): Promise<number | undefined> {
  const values = 'name' in which ? [which.name, null] : [null, which.id]
  const rows = await tx.run<[no: number]>(deleteStatement(db), values)
  return rows[0]?.[0]
}

const upsertStatement = defineStatement(
  'upsert_subscription',
  `insert into __schema__.subscriptions as s (id, name, via, types, tags, filter, conditions, key_pointer, key_path, on_exhausted, retry,
    lease_ms, timeout_ms, max_concurrency, rate_per_second, key_concurrency, storage, max_depth, high_watermark, on_full,
    batch_size, processing_interval_ms, persistence_threshold, handler_seen_at)
  values (__schema__.uuid_v7(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
    $20, $21, $22, __schema__.clock())
  on conflict (name) where status <> 'deleted' do update
  set types = excluded.types, tags = excluded.tags, filter = excluded.filter, conditions = excluded.conditions,
    key_pointer = excluded.key_pointer, key_path = excluded.key_path, on_exhausted = excluded.on_exhausted, retry = excluded.retry,
    lease_ms = excluded.lease_ms, timeout_ms = excluded.timeout_ms, max_concurrency = excluded.max_concurrency,
    rate_per_second = excluded.rate_per_second, key_concurrency = excluded.key_concurrency,
    storage = excluded.storage,
    -- What the definition does not say stays as an operator has set it.
    max_depth = coalesce(excluded.max_depth, s.max_depth), high_watermark = least(coalesce(excluded.high_watermark, s.high_watermark), coalesce(excluded.max_depth, s.max_depth)),
    on_full = coalesce(excluded.on_full, s.on_full), batch_size = coalesce(excluded.batch_size, s.batch_size),
    processing_interval_ms = coalesce(excluded.processing_interval_ms, s.processing_interval_ms),
    persistence_threshold = coalesce(excluded.persistence_threshold, s.persistence_threshold),
    handler_seen_at = excluded.handler_seen_at, updated_at = __schema__.clock()
  returning ${subscriptionColumns}`,
)

const routeStatement = defineStatement(
  'route_subscription',
  `with wanted as (
    insert into __schema__.routes (pattern, subscription)
    select pattern, $1 from unnest($2::text[]) as pattern
    on conflict do nothing
  )
  delete from __schema__.routes where subscription = $1 and pattern <> all($2::text[])`,
)

/** A subscription with a limit has a row that its leases queue up for; one without has none. */
const limitStatement = defineStatement(
  'limit_subscription',
  `with limited as (
    select s.no, s.rate_per_second
    from __schema__.subscriptions s
    where s.no = $1 and __schema__.is_limited(s.max_concurrency, s.rate_per_second, s.ramp)
  ),
  kept as (
    insert into __schema__.limits (subscription, tokens, refilled_at)
    select l.no, greatest(coalesce(l.rate_per_second, 1), 1), __schema__.clock() from limited l
    on conflict do nothing
  )
  delete from __schema__.limits where subscription = $1 and not exists (select 1 from limited)`,
)

const findStatement = defineStatement(
  'find_subscription',
  `select ${subscriptionColumns} from __schema__.subscriptions s where s.name = $1 and s.status <> 'deleted'`,
)

const holdStatement = defineStatement(
  'hold_subscription',
  `select s.no from __schema__.subscriptions s where s.id = $1 and s.status <> 'deleted' for update`,
)

const listStatement = defineStatement(
  'list_subscriptions',
  `select ${subscriptionColumns} from __schema__.subscriptions s where s.status <> 'deleted' order by s.no`,
)

const statusStatement = defineStatement(
  'set_subscription_status',
  `with changed as (
    update __schema__.subscriptions s
    set status = $2, ramp = null, updated_at = __schema__.clock(), drained_at = null,
      drain_fence = case when $2 = 'draining' then coalesce(pg_sequence_last_value('__schema__.event_ids'::regclass), 0) end,
      drain_xid = null
    where s.id = $1 and s.status <> 'deleted'
    returning s.no, s.max_concurrency, s.rate_per_second, s.ramp
  ),
  -- Whoever lets it go on believes that its endpoint is back.
  closed as (
    update __schema__.endpoints e
    set unreachable = 0, suspended_at = null, resumes_as = null, probe_at = null, probes = 0
    from changed c
    where e.subscription = c.no
  ),
  unlimited as (
    delete from __schema__.limits l
    using changed c
    where l.subscription = c.no and not __schema__.is_limited(c.max_concurrency, c.rate_per_second, c.ramp)
  )
  select no from changed`,
)

const touchStatement = defineStatement(
  'touch_handlers',
  'update __schema__.subscriptions set handler_seen_at = __schema__.clock() where no = any($1::int[])',
)

const deleteStatement = defineStatement(
  'delete_subscription',
  `with ended as (
    update __schema__.subscriptions
    set status = 'deleted', updated_at = __schema__.clock()
    where (name = $1 or id = $2::uuid) and status <> 'deleted' and no <> 0
    returning no
  ),
  unrouted as (
    delete from __schema__.routes r using ended e where r.subscription = e.no
  ),
  unsigned as (
    delete from __schema__.endpoint_secrets x using ended e where x.subscription = e.no
  )
  select no from ended`,
)
