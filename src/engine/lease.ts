import type { Connection, Database, Statement } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { isWithheld, type LeaseRow, runsFromRows, withheldFrom } from './lease-rows.ts'
import {
  leaseMany,
  leaseOldest,
  leaseOldestBounded,
  leaseTagged,
  leaseTaggedBounded,
} from './lease-statements.ts'
import { spend, takeTurn } from './limit.ts'
import { settle } from './settle.ts'

/** What one subscription is asked for. */
export interface LeaseWant {
  readonly subscription: number
  /** No lease call returns more deliveries than this. */
  readonly eventsMax: number
  /** How many runs to look at: `eventsMax` if they hold one delivery each, fewer if they are long. */
  readonly runsMax: number
  /** Whether a suspect may be handed out: a process runs one at a time, or a crash would blame its neighbours. */
  readonly suspects: boolean
  readonly leaseMs: number
  /** Deliveries of one lane per call: 1 over HTTP; in process a lane's owner may have many. */
  readonly laneMax: number
  /** It has a limit over the whole fleet, so its leases go one after the other. */
  readonly limited: boolean
  /** Also if it is suspended, to see whether its endpoint is back. */
  readonly probe?: boolean
  /** By which the caller has the queue in its memory: while a process has it, nobody else leases what was stored of it. */
  readonly memoryToken?: number
}

export interface LeaseRequest {
  readonly wants: readonly LeaseWant[]
  readonly token: number
  readonly worker: number
  /** `'granted'`: whoever leases has begun (pull). `'reported'`: beginnings are reported later (in process). */
  readonly begins: 'granted' | 'reported'
  /** Only runs with any of these tags; null: whatever their tags. */
  readonly tags: readonly string[] | null
  /** `'bounded'`: payloads beyond 16 MB in all are left out, and whose they are is not leased after all. */
  readonly payloads?: 'all' | 'bounded'
}

/**
 * A crash of the database may forget a lease: then the delivery is simply leased again. Joins by hash, with what
 * is joined named by `= any`: an analyze that found the tables empty would tempt the planner to read all for each.
 */
const transactionOptions = { durable: false, indexPlans: true, hashJoins: true } as const

/** Leases the oldest runs that are ready. */
export async function lease(db: Database, request: LeaseRequest): Promise<LeasedRun[]> {
  if (request.wants.length === 0) return []
  const limited = request.wants.some((want) => want.limited)
  const rows = limited
    ? await db.transaction((tx) => leaseLimited(tx, db, request), transactionOptions)
    : await db.once<LeaseRow>(leaseStatement(db, request), leaseValues(request), transactionOptions)
  if (request.payloads !== 'bounded') return runsFromRows(rows, request.token)
  const withheld = withheldFrom(rows, request.token)
  if (withheld.length > 0) await settle(db, withheld)
  return runsFromRows(
    rows.filter((row) => !isWithheld(row)),
    request.token,
  )
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
      // A limit that nobody keeps account of yet lets nothing through.
      eventsMax: want.limited ? Math.min(want.eventsMax, room.get(want.subscription) ?? 0) : want.eventsMax,
    }))
    .filter((want) => want.eventsMax > 0)
  if (wants.length === 0) return []
  const rows = await tx.run<LeaseRow>(leaseStatement(db, request), leaseValues({ ...request, wants }))
  await spend(tx, db, runsFromRows(rows, request.token))
  return rows
}

/** Above this many subscriptions the statement first finds those with ready runs. */
const manyMin = 50

export function leaseStatement(
  db: { readonly schema: string },
  { tags, payloads, wants }: LeaseRequest,
): Statement {
  if (payloads !== 'bounded') {
    if (tags !== null) return leaseTagged(db)
    return wants.length < manyMin ? leaseOldest(db) : leaseMany(db)
  }
  return tags === null ? leaseOldestBounded(db) : leaseTaggedBounded(db)
}

export function leaseValues({ wants, token, worker, begins, tags }: LeaseRequest): unknown[] {
  const values = [
    wants.map((want) => want.subscription),
    wants.map((want) => want.eventsMax),
    wants.map((want) => want.runsMax),
    wants.map((want) => want.suspects),
    wants.map((want) => want.leaseMs),
    token,
    worker,
    begins === 'granted',
    wants.map((want) => want.laneMax),
    wants.map((want) => want.limited),
    wants.map((want) => want.probe ?? false),
    wants.map((want) => want.memoryToken ?? null),
  ]
  return tags === null ? values : [...values, tags]
}
