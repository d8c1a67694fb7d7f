import { numberArray } from '../db/array.ts'
import type { Database } from '../db/database.ts'
import type { LeasedRun } from '../domain/delivery.ts'
import { type EventRow, eventFromRow } from './event-row.ts'
import { leaseEachStatement } from './lease-each-statements.ts'

/** Somebody who wants one delivery. */
export interface Taker {
  readonly token: number
  readonly worker: number
}

/** What all takers of one statement have in common. */
export interface EachTerms {
  readonly subscription: number
  /** Only deliveries with any of these tags; null: with any tags or none. */
  readonly tags: readonly string[] | null
  readonly leaseMs: number
  /** `'granted'`: attempts begin with the lease. `'reported'`: their beginning is reported later. */
  readonly begins: 'granted' | 'reported'
  readonly suspects: boolean
}

export interface EachLease {
  readonly run: LeasedRun
  /** The event is owed to nobody else, so its worker can mean no other lease by its name. */
  readonly isOnlyDelivery: boolean
}

export interface Each {
  /** In the order of the takers. */
  readonly leases: readonly (EachLease | undefined)[]
  /** How many deliveries each run had from which something was leased. */
  readonly offers: readonly number[]
}

/** Not durable: a crash of the database may forget a lease, and then the delivery is leased again. */
const plans = { durable: false, indexPlans: true, hashJoins: true } as const

/**
 * Leases one delivery to each taker, the oldest first. Takers beyond what is ready get undefined. Not for subscriptions with a limit
 * over the whole fleet: from these the statement leases nothing.
 */
export async function leaseEach(
  db: Database,
  terms: EachTerms,
  { takers, runsMax }: { readonly takers: readonly Taker[]; readonly runsMax: number },
): Promise<Each> {
  const { subscription, tags, leaseMs, begins, suspects } = terms
  const values = [
    subscription,
    tags,
    numberArray(takers.map(({ token }) => token)),
    numberArray(takers.map(({ worker }) => worker)),
    leaseMs,
    begins === 'granted',
    suspects,
    runsMax,
  ]
  const leases: (EachLease | undefined)[] = takers.map(() => undefined)
  const offers = new Map<number, number>()
  for (const row of await db.once<EachRow>(leaseEachStatement(db), values, plans)) {
    const [place, sourceId, offered, isOnlyDelivery] = row
    const { token } = takers[place - 1] as Taker
    leases[place - 1] = { run: runFromRow(row, { subscription, token }), isOnlyDelivery }
    offers.set(sourceId, offered)
  }
  return { leases, offers: [...offers.values()] }
}

type EachRow = [
  place: number,
  /** The run that the delivery was in until now. */
  sourceId: number,
  offered: number,
  isOnlyDelivery: boolean,
  runId: number,
  attempts: number,
  failures: number,
  suspect: boolean,
  laneKey: string | null,
  leasedUntilMs: number,
  ...event: EventRow,
]

function runFromRow(
  row: EachRow,
  { subscription, token }: { readonly subscription: number; readonly token: number },
): LeasedRun {
  const [, , , , id, attempts, failures, suspect, laneKey, leasedUntilMs] = row
  const run: LeasedRun = {
    id,
    subscription,
    token,
    laneKey,
    suspect,
    leasedUntil: new Date(leasedUntilMs),
    deliveries: [],
  }
  run.deliveries.push({ run, event: eventFromRow(row, 10), attempt: attempts + 1, failures })
  return run
}
