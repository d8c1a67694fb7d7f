import { portionsOf } from '../../core/portions.ts'
import { numberArray, textArray } from '../../db/array.ts'
import type { Database } from '../../db/database.ts'
import type { ExchangeRecord } from '../../domain/exchange-record.ts'
import * as statements from './webhook-statements.ts'

/** The request of one attempt, and its response or failure. */
export interface AttemptExchange {
  readonly eventId: number
  readonly subscription: number
  /** The token of the attempt's lease: each lease attempts a delivery once. */
  readonly token: number
  readonly attempt: number
  /** How long ago the attempt began. */
  readonly ageMs: number
  readonly exchange: ExchangeRecord
}

/** Stores exchanges. A crash of the database may lose the last ones: the settlement that follows is what must be durable. */
export async function recordExchanges(db: Database, exchanges: readonly AttemptExchange[]): Promise<void> {
  for (const some of portionsOf(exchanges, portion)) await recordSome(db, some)
}

/** Each may have 16 KB of body and as much of headers. */
const portion = { itemsMax: 500 }

async function recordSome(db: Database, exchanges: readonly AttemptExchange[]): Promise<void> {
  const texts = (value: (item: AttemptExchange) => string | null) => textArray(exchanges.map(value))
  const numbers = (value: (item: AttemptExchange) => number | null) => numberArray(exchanges.map(value))
  await db.once(
    statements.recordExchanges(db),
    [
      numbers((item) => item.eventId),
      numbers((item) => item.subscription),
      numbers((item) => item.token),
      numbers((item) => item.attempt),
      numbers((item) => item.ageMs),
      texts(({ exchange }) => JSON.stringify(requestDocument(exchange.request))),
      numbers(({ exchange }) => exchange.statusCode),
      texts(({ exchange }) => (exchange.response === null ? null : JSON.stringify(exchange.response))),
      texts(({ exchange }) => exchange.errorClass),
      texts(({ exchange }) => exchange.error),
      texts(({ exchange }) => JSON.stringify(exchange.timings)),
    ],
    { durable: false },
  )
}

function requestDocument({ url, headers, bodySha256, bodyBytes }: ExchangeRecord['request']): object {
  return { url, headers, body_sha256: bodySha256, body_bytes: bodyBytes }
}
