import { numberArray, textArray } from '../../db/array.ts'
import { type Database, defineStatement } from '../../db/database.ts'
import type { ExchangeRecord } from '../../domain/exchange-record.ts'

/** The request of one attempt, and what came of it. */
export interface AttemptExchange {
  readonly eventId: number
  readonly subscription: number
  /** Of the lease that the attempt was made under: one delivery is attempted once under each. */
  readonly token: number
  readonly attempt: number
  /** How long ago it began. */
  readonly ageMs: number
  readonly exchange: ExchangeRecord
}

/**
 * Keeps what was sent and answered. A crash of the database may forget the last moment of it: the settlement that
 * follows is what counts, and it is durable.
 */
export async function recordExchanges(db: Database, exchanges: readonly AttemptExchange[]): Promise<void> {
  for (let from = 0; from < exchanges.length; from += perStatementMax) {
    await recordSome(db, exchanges.slice(from, from + perStatementMax))
  }
}

/** Each may bring 16 KB of an answer and as much of headers. */
const perStatementMax = 500

async function recordSome(db: Database, exchanges: readonly AttemptExchange[]): Promise<void> {
  const column = (value: (one: AttemptExchange) => string | null) => textArray(exchanges.map(value))
  const numbers = (value: (one: AttemptExchange) => number | null) => numberArray(exchanges.map(value))
  await db.once(
    recordStatement(db),
    [
      numbers((one) => one.eventId),
      numbers((one) => one.subscription),
      numbers((one) => one.token),
      numbers((one) => one.attempt),
      numbers((one) => one.ageMs),
      column(({ exchange }) => JSON.stringify(requestDocument(exchange.request))),
      numbers(({ exchange }) => exchange.statusCode),
      column(({ exchange }) => (exchange.response === null ? null : JSON.stringify(exchange.response))),
      column(({ exchange }) => exchange.errorClass),
      column(({ exchange }) => exchange.error),
      column(({ exchange }) => JSON.stringify(exchange.timings)),
    ],
    { durable: false },
  )
}

function requestDocument({ url, headers, bodySha256, bodyBytes }: ExchangeRecord['request']): object {
  return { url, headers, body_sha256: bodySha256, body_bytes: bodyBytes }
}

const recordStatement = defineStatement(
  'record_exchanges',
  `insert into __schema__.exchanges (event_id, subscription, token, attempt, started_at, request, status_code, response,
    error_class, error, timings)
  select g.event_id, g.subscription, g.token, g.attempt, __schema__.clock() - g.age_ms * interval '1 ms', g.request::json,
    g.status_code, g.response::json, g.error_class, g.error, g.timings::json
  from unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::int[], $6::text[], $7::smallint[], $8::text[],
      $9::text[], $10::text[], $11::text[])
    as g(event_id, subscription, token, attempt, age_ms, request, status_code, response, error_class, error, timings)
  on conflict do nothing`,
)
