import type { Connection, Database } from '../db/database.ts'
import { badOption } from '../domain/bad-value.ts'
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
import { subscriptionFromRow } from './subscription-row.ts'
import {
  deleteStatement,
  findAbandonedStatement,
  lockStatement,
  readStatement,
  setLimitStatement,
  setRoutesStatement,
  setStatusStatement,
  touchHandlersStatement,
  upsertStatement,
} from './subscription-statements.ts'

/**
 * Creates the subscription, or changes it to what the definition says. Every publish that begins after the commit, in any process,
 * is routed to it.
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
      throw badOption('name', expected, value)
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
  const [row] = await tx.run<[no: number]>(upsertStatement(db), [
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
  const [no] = row as [number]
  await tx.run(setRoutesStatement(db), [no, definition.types])
  await tx.run(setLimitStatement(db), [no])
  const [written] = await readSubscriptions(tx, db, [null, no])
  return written as Subscription
}

export async function findSubscription(
  tx: Connection,
  db: { readonly schema: string },
  name: string,
): Promise<Subscription | undefined> {
  const [found] = await readSubscriptions(tx, db, [name, null])
  return found
}

async function readSubscriptions(
  tx: Connection,
  db: { readonly schema: string },
  values: readonly [name: string | null, no: number | null],
): Promise<Subscription[]> {
  const { rows } = await tx.query<Subscription>(readStatement(db).text, values)
  return rows.map(subscriptionFromRow)
}

/** A new subscription, or what an existing one is to become. */
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

/** Creates a subscription. Throws NAME_TAKEN if it exists. */
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
    if (status === 'paused') await tx.run(setStatusStatement(db), [id, status])
    return (await getSubscriber(tx, db, id)) as Subscriber
  })
}

export interface ChangeRequest {
  readonly id: string
  /** Change it only if it has one of these versions; null: in any case. */
  readonly versions: readonly number[] | null
}

/**
 * Changes a subscription under a lock: other changes wait. Throws NOT_FOUND, and CHANGED_MEANWHILE if it does not have the version
 * that the caller has seen.
 */
export async function changeSubscriber<T>(
  db: Database,
  { id, versions }: ChangeRequest,
  change: (tx: Connection, before: Subscriber) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.run(lockStatement(db), [id])
    const before = await getSubscriber(tx, db, id)
    if (before === undefined) throw new PosthornError('NOT_FOUND', { what: 'subscriber', id })
    if (versions !== null && !versions.includes(before.version)) {
      throw new PosthornError('CHANGED_MEANWHILE', { id, version: before.version })
    }
    return change(tx, before)
  })
}

/** Within the transaction of `changeSubscriber`. */
export async function redefine(
  tx: Connection,
  db: { readonly schema: string },
  { definition, endpoint }: SubscriberDefinition,
): Promise<void> {
  const { no } = await writeSubscription(tx, db, definition)
  if (endpoint !== null) await writeEndpoint(tx, db, no, endpoint)
}

/** The lock lasts until the transaction ends, so that of two callers with one name only one finds it free. */
async function lockName(tx: Connection, name: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtext($1))', [`posthorn subscription ${name}`])
}

/** A paused subscription is owed events and gives out none; a draining one gives out what was there when the drain began. */
export type SetStatus = 'active' | 'paused' | 'draining'

/** Within the transaction of `changeSubscriber`. */
export async function setStatus(
  tx: Connection,
  db: { readonly schema: string },
  { id, status }: { id: string; status: SetStatus },
): Promise<void> {
  // No admission may run meanwhile: one that does not see the fence would let in deliveries beyond it.
  if (status === 'draining') await tx.run(lockAdmissions(db), [])
  await tx.run(setStatusStatement(db), [id, status])
}

export async function listSubscriptions(db: Database): Promise<Subscription[]> {
  return readSubscriptions(db, db, [null, null])
}

/** Records that a process with handlers of these subscriptions is alive. */
export async function touchHandlers(db: Database, subscriptions: readonly number[]): Promise<void> {
  await db.run(touchHandlersStatement(db), [subscriptions])
}

/** Handler subscriptions that no live handler has served for ten minutes. */
export async function abandonedSubscriptions(db: Database): Promise<string[]> {
  const rows = await db.run<[name: string]>(findAbandonedStatement(db), [])
  return rows.map(([name]) => name)
}

/** Ends a subscription: nothing more is routed to it, and upkeep cancels its waiting deliveries. */
export async function deleteSubscription(
  tx: Connection,
  db: { readonly schema: string },
  which: { readonly name: string } | { readonly id: string },
): Promise<number | undefined> {
  const values = 'name' in which ? [which.name, null] : [null, which.id]
  const rows = await tx.run<[no: number]>(deleteStatement(db), values)
  return rows[0]?.[0]
}
