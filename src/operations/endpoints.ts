import { type Connection, type Database, defineStatement } from '../db/database.ts'
import type { Format, StatusRules } from '../domain/endpoint.ts'

/** Where the deliveries of a webhook subscription go, and how the endpoint is doing. */
export interface Endpoint extends EndpointDefinition {
  readonly subscription: number
  /** Failures in a row to reach it at all. */
  readonly unreachable: number
  readonly suspendedAt: Date | null
  readonly probeAt: Date | null
  readonly lastError: string | null
  /** What requests are signed with, sealed, the newest first. */
  readonly secrets: readonly EndpointSecret[]
}

export interface EndpointDefinition {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly format: Format
  /** What statuses mean, where they mean something else than usual. */
  readonly rules: StatusRules
}

export interface SealedSecret {
  readonly id: string
  readonly sealed: string
}

export interface EndpointSecret extends SealedSecret {
  /** Null: the current one. */
  readonly expiresAtMs: number | null
}

/** Every request is signed with each that is good, so there are never more than this. */
const secretsMax = 5

type Schema = { readonly schema: string }

/** Makes the endpoint of a subscription what the definition says. How it is doing stays. */
export async function writeEndpoint(
  tx: Connection,
  db: Schema,
  subscription: number,
  { url, headers, format, rules }: EndpointDefinition,
): Promise<void> {
  await tx.run(writeStatement(db), [
    subscription,
    url,
    JSON.stringify(headers),
    format,
    JSON.stringify(rules),
  ])
}

/** Those that are valid now, the newest first. */
export async function listSecrets(db: Database, subscription: number): Promise<SealedSecret[]> {
  const rows = await db.run<[id: string, sealed: string]>(secretsStatement(db), [subscription])
  return rows.map(([id, sealed]) => ({ id, sealed }))
}

/** Some of all that are needed, to see whether they can be opened. */
export async function anySecrets(db: Database, secretsMax: number): Promise<SealedSecret[]> {
  const rows = await db.run<[id: string, sealed: string]>(anyStatement(db), [secretsMax])
  return rows.map(([id, sealed]) => ({ id, sealed }))
}

/** Those that were sealed with another key than what begins so, by id. */
export async function outdatedSecrets(
  db: Database,
  { prefix, after, secretsMax }: { prefix: string; after: string | null; secretsMax: number },
): Promise<SealedSecret[]> {
  const values = [prefix, after, secretsMax]
  const rows = await db.run<[id: string, sealed: string]>(outdatedStatement(db), values)
  return rows.map(([id, sealed]) => ({ id, sealed }))
}

/** Seals one anew, if it is still as it was. */
export async function resealSecret(
  db: Database,
  { id, sealed, before }: SealedSecret & { before: string },
): Promise<void> {
  await db.run(resealStatement(db), [id, sealed, before])
}

/** A secret from now on; those before it are good for so much longer at most, so that receivers can change over. */
export async function addSecret(
  tx: Connection,
  db: Schema,
  { subscription, id, sealed, overlapMs }: SealedSecret & { subscription: number; overlapMs: number },
): Promise<void> {
  await tx.run(expireStatement(db), [subscription, overlapMs])
  await tx.run(secretStatement(db), [id, subscription, sealed])
  await tx.run(touchStatement(db), [subscription])
}

/** Those of all webhook subscriptions that exist. */
export async function listEndpoints(db: Database): Promise<Endpoint[]> {
  const rows = await db.run<EndpointRow>(listStatement(db), [])
  return rows.map(([subscription, url, headers, format, rules, ...state]) => {
    const [unreachable, suspendedAt, probeAt, lastError, secrets] = state
    return {
      ...{ subscription, url, headers, format, rules, unreachable, suspendedAt, probeAt, lastError },
      secrets: secrets ?? [],
    }
  })
}

const writeStatement = defineStatement(
  'write_endpoint',
  `insert into __schema__.endpoints (subscription, url, headers, format, rules)
  values ($1, $2, $3, $4, $5)
  on conflict (subscription) do update
  set url = excluded.url, headers = excluded.headers, format = excluded.format, rules = excluded.rules`,
)

const expireStatement = defineStatement(
  'expire_secrets',
  `with live as (
    select x.id, row_number() over (order by x.created_at desc) as age
    from __schema__.endpoint_secrets x
    where x.subscription = $1 and (x.expires_at is null or x.expires_at > __schema__.clock())
  )
  update __schema__.endpoint_secrets x
  set expires_at = least(x.expires_at,
    __schema__.clock() + case when l.age < ${secretsMax} then $2::float8 else 0 end * interval '1 ms')
  from live l
  where x.id = l.id`,
)

/** It is a change of the subscriber, and whoever signs hears of it. */
const touchStatement = defineStatement(
  'touch_subscription',
  'update __schema__.subscriptions set updated_at = __schema__.clock(), version = version + 1 where no = $1',
)

const secretsStatement = defineStatement(
  'list_secrets',
  `select x.id, x.sealed
  from __schema__.endpoint_secrets x
  where x.subscription = $1 and (x.expires_at is null or x.expires_at > __schema__.clock())
  order by x.created_at desc`,
)

const anyStatement = defineStatement(
  'any_secrets',
  `select x.id, x.sealed
  from __schema__.endpoint_secrets x
  join __schema__.subscriptions s on s.no = x.subscription and s.status <> 'deleted'
  where x.expires_at is null or x.expires_at > __schema__.clock()
  order by x.created_at desc
  limit $1`,
)

const outdatedStatement = defineStatement(
  'outdated_secrets',
  `select x.id, x.sealed
  from __schema__.endpoint_secrets x
  where not starts_with(x.sealed, $1) and ($2::uuid is null or x.id > $2::uuid)
  order by x.id
  limit $3`,
)

const resealStatement = defineStatement(
  'reseal_secret',
  'update __schema__.endpoint_secrets set sealed = $2 where id = $1 and sealed = $3',
)

const secretStatement = defineStatement(
  'add_secret',
  `insert into __schema__.endpoint_secrets (id, subscription, sealed, created_at)
  values ($1, $2, $3, __schema__.clock())`,
)

const listStatement = defineStatement(
  'list_endpoints',
  `select e.subscription, e.url, e.headers, e.format, e.rules, e.unreachable, e.suspended_at, e.probe_at, e.last_error,
    (select json_agg(json_build_object('id', x.id, 'sealed', x.sealed,
       'expiresAtMs', extract(epoch from x.expires_at) * 1000) order by x.created_at desc)
     from __schema__.endpoint_secrets x
     where x.subscription = e.subscription and (x.expires_at is null or x.expires_at > __schema__.clock()))
  from __schema__.endpoints e
  join __schema__.subscriptions s on s.no = e.subscription and s.status <> 'deleted'
  order by e.subscription`,
)

type EndpointRow = [
  subscription: number,
  url: string,
  headers: Record<string, string>,
  format: Format,
  rules: EndpointDefinition['rules'],
  unreachable: number,
  suspendedAt: Date | null,
  probeAt: Date | null,
  lastError: string | null,
  secrets: EndpointSecret[] | null,
]
