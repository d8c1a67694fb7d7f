import type { Connection, Database } from '../../db/database.ts'
import type { Format, StatusRules } from '../../domain/endpoint.ts'
import * as statements from './endpoint-statements.ts'

export interface EndpointDefinition {
  readonly url: string
  readonly headers: StoredHeaders
  readonly format: Format
  /** Statuses that have another meaning than usual. */
  readonly rules: StatusRules
}

/** A subscriber's own headers, as they may be shown. Null: the value is sealed. */
export type StoredHeaders = Readonly<Record<string, string | null>>

export interface SealedSecret {
  readonly id: string
  readonly sealed: string
}

export interface SealedHeader extends SealedSecret {
  readonly name: string
}

export interface EndpointSecret extends SealedSecret {
  /** Null: the current secret. */
  readonly expiresAtMs: number | null
}

/** Where the deliveries of a webhook subscription go. */
export interface Endpoint extends EndpointDefinition {
  readonly subscription: number
  /** What requests are signed with, the newest first. */
  readonly secrets: readonly EndpointSecret[]
  /** Headers whose values are never shown. */
  readonly sealedHeaders: readonly SealedHeader[]
}

/** What an endpoint shall be. Sealed values of headers that are not among `sealedHeaders` stay. */
export interface EndpointChange extends EndpointDefinition {
  readonly sealedHeaders: readonly SealedHeader[]
}

type Schema = { readonly schema: string }

/** Creates or changes the endpoint of a subscription. The state of its breaker stays. */
export async function writeEndpoint(
  tx: Connection,
  db: Schema,
  subscription: number,
  { url, headers, format, rules, sealedHeaders }: EndpointChange,
): Promise<void> {
  const values = [subscription, url, JSON.stringify(headers), format, JSON.stringify(rules)]
  await tx.run(statements.writeEndpoint(db), values)
  const kept = Object.keys(headers).filter(
    (name) => headers[name] === null && !sealedHeaders.some((sealed) => sealed.name === name),
  )
  await tx.run(statements.keepHeaders(db), [subscription, kept])
  for (const { id, name, sealed } of sealedHeaders) {
    await tx.run(statements.addHeader(db), [id, subscription, name, sealed])
  }
}

/** The newest secrets and sealed headers of all subscribers. */
export async function newestSecrets(db: Database, secretsMax: number): Promise<SealedSecret[]> {
  return (await db.query<SealedSecret>(statements.newestSecrets(db).text, [secretsMax])).rows
}

/** Adds a secret. The secrets before it stay valid for `overlapMs` at most, so that receivers can change over. */
export async function addSecret(
  tx: Connection,
  db: Schema,
  { subscription, id, sealed, overlapMs }: SealedSecret & { subscription: number; overlapMs: number },
): Promise<void> {
  await tx.run(statements.expireSecrets(db), [subscription, overlapMs])
  await tx.run(statements.addSecret(db), [id, subscription, sealed])
  await tx.run(statements.touchSubscription(db), [subscription])
}

/** Of one subscription, or of all. */
export async function listEndpoints(db: Database, subscription?: number): Promise<Endpoint[]> {
  return (await db.query<Endpoint>(statements.listEndpoints(db).text, [subscription ?? null])).rows
}
