import { type Connection, type Database, defineStatement } from '../../db/database.ts'
import type { Format, StatusRules } from '../../domain/endpoint.ts'

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
  /** The values of headers that nobody is shown. */
  readonly sealedHeaders: readonly SealedHeader[]
}

/** A subscriber's own headers, as they may be shown. Null: there is a value, sealed. */
export type StoredHeaders = Readonly<Record<string, string | null>>

export interface EndpointDefinition {
  readonly url: string
  readonly headers: StoredHeaders
  readonly format: Format
  /** What statuses mean, where they mean something else than usual. */
  readonly rules: StatusRules
}

export interface SealedSecret {
  readonly id: string
  readonly sealed: string
}

export interface SealedHeader extends SealedSecret {
  readonly name: string
}

/** What an endpoint is to be. Sealed values of headers that are not among `sealedHeaders` stay. */
export interface EndpointChange extends EndpointDefinition {
  readonly sealedHeaders: readonly SealedHeader[]
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
  { url, headers, format, rules, sealedHeaders }: EndpointChange,
): Promise<void> {
  await tx.run(writeStatement(db), [
    subscription,
    url,
    JSON.stringify(headers),
    format,
    JSON.stringify(rules),
  ])
  const kept = Object.keys(headers).filter(
    (name) => headers[name] === null && !sealedHeaders.some((sealed) => sealed.name === name),
  )
  await tx.run(keepHeadersStatement(db), [subscription, kept])
  for (const { id, name, sealed } of sealedHeaders) {
    await tx.run(addHeaderStatement(db), [id, subscription, name, sealed])
  }
}

/** Those that are valid now, the newest first. */
export async function listSecrets(db: Database, subscription: number): Promise<SealedSecret[]> {
  const rows = await db.run<[id: string, sealed: string]>(secretsStatement(db), [subscription])
  return rows.map(([id, sealed]) => ({ id, sealed }))
}

/** The values of headers that nobody is shown. */
export async function listHeaders(db: Database, subscription: number): Promise<SealedHeader[]> {
  const rows = await db.run<[id: string, name: string, sealed: string]>(headersStatement(db), [subscription])
  return rows.map(([id, name, sealed]) => ({ id, name, sealed }))
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
    const [unreachable, suspendedAt, probeAt, lastError, secrets, sealedHeaders] = state
    return {
      ...{ subscription, url, headers, format, rules, unreachable, suspendedAt, probeAt, lastError },
      secrets: secrets ?? [],
      sealedHeaders: sealedHeaders ?? [],
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

const keepHeadersStatement = defineStatement(
  'keep_headers',
  `delete from __schema__.endpoint_secrets x
  where x.subscription = $1 and x.header is not null and x.header <> all($2::text[])`,
)

const addHeaderStatement = defineStatement(
  'add_header',
  `insert into __schema__.endpoint_secrets (id, subscription, header, sealed, created_at)
  values ($1, $2, $3, $4, __schema__.clock())`,
)

const headersStatement = defineStatement(
  'list_headers',
  `select x.id, x.header, x.sealed
  from __schema__.endpoint_secrets x
  where x.subscription = $1 and x.header is not null`,
)

const expireStatement = defineStatement(
  'expire_secrets',
  `with live as (
    select x.id, row_number() over (order by x.created_at desc) as age
    from __schema__.endpoint_secrets x
    where x.subscription = $1 and x.header is null and (x.expires_at is null or x.expires_at > __schema__.clock())
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
  where x.subscription = $1 and x.header is null and (x.expires_at is null or x.expires_at > __schema__.clock())
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
     where x.subscription = e.subscription and x.header is null
       and (x.expires_at is null or x.expires_at > __schema__.clock())),
    (select json_agg(json_build_object('id', x.id, 'name', x.header, 'sealed', x.sealed))
     from __schema__.endpoint_secrets x
     where x.subscription = e.subscription and x.header is not null)
  from __schema__.endpoints e
  join __schema__.subscriptions s on s.no = e.subscription and s.status <> 'deleted'
  order by e.subscription`,
)

type EndpointRow = [
  subscription: number,
  url: string,
  headers: StoredHeaders,
  format: Format,
  rules: EndpointDefinition['rules'],
  unreachable: number,
  suspendedAt: Date | null,
  probeAt: Date | null,
  lastError: string | null,
  secrets: EndpointSecret[] | null,
  sealedHeaders: SealedHeader[] | null,
]
