import type { Connection, Database, Statement } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { isWithheld, type LeaseRow, runsFromRows, withheldFrom } from './lease-rows.ts'
import { findReadyStatement, leaseStatement, leaseTaggedStatement } from './lease-statements.ts'
import { spend, takeTurn } from './limit.ts'
import { settle } from './settle.ts'

/** What one subscription is asked for. */
export interface LeaseWant {
  readonly subscription: number
  /** No lease call returns more deliveries than this. */
  readonly eventsMax: number
  /** How many runs to look at: `eventsMax` if they hold one delivery each, fewer if they are long. */
  readonly runsMax: number
  /** Whether a suspect may be leased: a process attempts one at a time, or a crash would be charged to its neighbours. */
  readonly suspects: boolean
  readonly leaseMs: number
  /** Deliveries of one lane per call: 1 over HTTP; in process the holder of a lane may have many. */
  readonly laneMax: number
  /** The subscription has a limit over the whole fleet, so its leases are taken one after the other. */
  readonly limited: boolean
  /** Lease also from a suspended subscription, to see whether its endpoint is back. */
  readonly probe?: boolean
  /** The token by which the caller has this queue in its memory. While a process has a queue, no other leases from it. */
  readonly memoryToken?: number
}

export interface LeaseRequest {
  readonly wants: readonly LeaseWant[]
  readonly token: number
  readonly worker: number
  /** `'granted'`: attempts begin with the lease (pull). `'reported'`: their beginning is reported later (in process). */
  readonly begins: 'granted' | 'reported'
  /** Only runs with any of these tags; null: all runs. */
  readonly tags: readonly string[] | null
  /** `'bounded'`: deliveries whose payloads go beyond 16 MB in all are handed back at once. */
  readonly payloads?: 'all' | 'bounded'
}

const payloadBytesMax = 16 * 2 ** 20

/**
 * Not durable: a crash of the database may forget a lease, and then the delivery is leased again. Joins by hash, with
 * the rows named by `= any`: after an analyze of empty tables the planner would read a whole table for each row.
 */
const transactionOptions = { durable: false, indexPlans: true, hashJoins: true } as const

/** Leases the oldest runs that are ready. */
export async function lease(db: Database, request: LeaseRequest): Promise<LeasedRun[]> {
  const wants = await withReadyRuns(db, request.wants)
  if (wants.length === 0) return []
  const rows = await leaseRows(db, { ...request, wants })
  if (request.payloads !== 'bounded') return runsFromRows(rows, request.token)
  const withheld = withheldFrom(rows, request.token)
  if (withheld.length > 0) await settle(db, withheld)
  return runsFromRows(
    rows.filter((row) => !isWithheld(row)),
    request.token,
  )
}

/** Above this many subscriptions, first find those with ready runs. */
const manyMin = 50

async function withReadyRuns(db: Database, wants: readonly LeaseWant[]): Promise<readonly LeaseWant[]> {
  if (wants.length < manyMin) return wants
  const asked = wants.map((want) => want.subscription)
  const rows = await db.once<[subscription: number]>(findReadyStatement(db), [asked], {
    readOnly: true,
    indexPlans: true,
  })
  const ready = new Set(rows.map(([subscription]) => subscription))
  return wants.filter((want) => ready.has(want.subscription))
}

async function leaseRows(db: Database, request: LeaseRequest): Promise<readonly LeaseRow[]> {
  if (request.wants.some((want) => want.limited)) {
    return db.transaction((tx) => leaseLimited(tx, db, request), transactionOptions)
  }
  return db.once<LeaseRow>(leaseStatementFor(db, request), leaseValues(request), transactionOptions)
}

async function leaseLimited(
  tx: Connection,
  db: Database,
  request: LeaseRequest,
): Promise<readonly LeaseRow[]> {
  const limited = request.wants.filter((want) => want.limited).map((want) => want.subscription)
  const room = await takeTurn(tx, db, limited)
  const wants = request.wants
    .map((want) => ({
      ...want,
      // A limit without a row of its own yet lets nothing through.
      eventsMax: want.limited ? Math.min(want.eventsMax, room.get(want.subscription) ?? 0) : want.eventsMax,
    }))
    .filter((want) => want.eventsMax > 0)
  if (wants.length === 0) return []
  const rows = await tx.run<LeaseRow>(leaseStatementFor(db, request), leaseValues({ ...request, wants }))
  await spend(tx, db, runsFromRows(rows, request.token))
  return rows
}

export function leaseStatementFor(db: { readonly schema: string }, { tags }: LeaseRequest): Statement {
  return tags === null ? leaseStatement(db) : leaseTaggedStatement(db)
}

export function leaseValues({ wants, token, worker, begins, tags, payloads }: LeaseRequest): unknown[] {
  const values = [
    wants.map((want) => want.subscription),
    wants.map((want) => want.eventsMax),
    wants.map((want) => want.runsMax),
    wants.map((want) => want.suspects),
    wants.map((want) => want.leaseMs),
    wants.map((want) => want.laneMax),
    wants.map((want) => want.limited),
    wants.map((want) => want.probe ?? false),
    wants.map((want) => want.memoryToken ?? null),
    token,
    worker,
    begins === 'granted',
    payloads === 'bounded' ? payloadBytesMax : null,
  ]
  return tags === null ? values : [...values, tags]
}
