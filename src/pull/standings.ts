import { numberArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import { type DeliveryState, type EventStatus, eventStatus } from '../domain/status.ts'

/** Where an event stands, in a few words. */
export interface Standing {
  readonly status: EventStatus
  readonly deliveries: readonly StandingDelivery[]
}

export interface StandingDelivery {
  readonly subscription: number
  readonly name: string
  readonly state: DeliveryState
  /** Who holds it, or had it last. */
  readonly worker: string | null
}

/** Of many events at once, by their ids; those that do not exist are left out. */
export async function readStandings(
  db: Database,
  eventIds: readonly number[],
): Promise<Map<number, Standing>> {
  const rows = await db.run<StandingRow>(standingStatement(db), [numberArray([...new Set(eventIds)])])
  const found = new Map<number, { unwanted: boolean; deliveries: StandingDelivery[] }>()
  for (const [eventId, unwanted, subscription, name, state, worker] of rows) {
    const one = found.get(eventId) ?? { unwanted, deliveries: [] }
    found.set(eventId, one)
    if (subscription !== null) one.deliveries.push({ subscription, name, state, worker })
  }
  return new Map(
    [...found].map(([eventId, { unwanted, deliveries }]) => {
      const states = deliveries.map(({ state }) => state)
      return [eventId, { status: eventStatus({ states, unwanted }), deliveries }]
    }),
  )
}

const standingStatement = defineStatement(
  'standings',
  `select e.id,
    e.owed = '{}' and exists (
      select 1 from __schema__.dead_letters l
      where l.event_id = e.id and l.subscription is null and l.redriven_at is null),
    d.subscription, s.name, d.state, w.name
  from __schema__.events e
  left join __schema__.delivery_states($1::bigint[]) as d on d.event_id = e.id
  left join __schema__.subscriptions s on s.no = d.subscription
  left join __schema__.workers w on w.no = d.worker
  where e.id = any($1)
  order by e.id, d.subscription`,
)

type StandingRow = [
  eventId: number,
  unwanted: boolean,
  subscription: number | null,
  name: string,
  state: DeliveryState,
  worker: string | null,
]
