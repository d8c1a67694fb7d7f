import { numberArray, textArray } from '../db/array.ts'
import { type Database, defineStatement } from '../db/database.ts'
import type { NewEvent } from '../domain/event.ts'

/** The subscriptions that an event is owed to, and the key by which each orders it. */
export type LaneKeys = ReadonlyMap<number, string | null>

/** Routes events whose payload a subscription inspects, as stored events are routed. In the order of the events. */
export async function routeMemory(db: Database, events: readonly NewEvent[]): Promise<LaneKeys[]> {
  const texts = (value: (event: NewEvent) => string | null) => textArray(events.map(value))
  const rows = await db.run<[place: number, subscription: number, laneKey: string | null]>(
    routeStatement(db),
    [
      numberArray(events.map((_, place) => place)),
      texts(({ type }) => type),
      texts(({ payloadText }) => payloadText),
      texts(({ title }) => title),
      texts(({ description }) => description),
      texts(({ orderingKey }) => orderingKey),
      texts(({ version }) => version),
      texts(({ source }) => source && JSON.stringify(source)),
      texts(({ correlationId }) => correlationId),
      texts(({ causationId }) => causationId),
      texts(({ attributes }) => attributes),
    ],
  )
  const owed = events.map(() => new Map<number, string | null>())
  for (const [place, subscription, laneKey] of rows) owed[place]?.set(subscription, laneKey)
  return owed
}

const routeStatement = defineStatement(
  'route_memory',
  `select u.place, r.subscription, r.lane_key
  from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
      $10::text[], $11::text[])
    as u(place, type, payload, title, description, ordering_key, version, source, correlation_id, causation_id, attributes)
  cross join lateral __schema__.route_looked_into(u.type, u.payload, u.title, u.description, u.ordering_key, u.version,
    u.source::json, u.correlation_id, u.causation_id, u.attributes::json) as r`,
)
