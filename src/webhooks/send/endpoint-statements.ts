import { defineStatement } from '../../db/database.ts'

export const writeEndpoint = defineStatement(
  'write_endpoint',
  `insert into __schema__.endpoints (subscription, url, headers, format, rules)
  values ($1, $2, $3, $4, $5)
  on conflict (subscription) do update
  set url = excluded.url, headers = excluded.headers, format = excluded.format, rules = excluded.rules`,
)

/** Deletes the sealed headers of the subscription $1, except $2. */
export const keepHeaders = defineStatement(
  'keep_headers',
  `delete from __schema__.endpoint_secrets x
  where x.subscription = $1 and x.header is not null and x.header <> all($2::text[])`,
)

export const addHeader = defineStatement(
  'add_header',
  `insert into __schema__.endpoint_secrets (id, subscription, header, sealed, created_at)
  values ($1, $2, $3, $4, __schema__.clock())`,
)

export const addSecret = defineStatement(
  'add_secret',
  `insert into __schema__.endpoint_secrets (id, subscription, sealed, created_at)
  values ($1, $2, $3, __schema__.clock())`,
)

/**
 * Lets the secrets of the subscription $1 expire in $2 ms at the latest, so that receivers can change over. Every request is signed
 * with each valid secret, so at most five stay valid, with the one that is about to be added.
 */
export const expireSecrets = defineStatement(
  'expire_secrets',
  `with live as (
    select x.id, row_number() over (order by x.created_at desc) as age
    from __schema__.endpoint_secrets x
    where x.subscription = $1 and x.header is null and (x.expires_at is null or x.expires_at > __schema__.clock())
  )
  update __schema__.endpoint_secrets x
  set expires_at = least(x.expires_at,
    __schema__.clock() + case when l.age < 5 then $2::float8 else 0 end * interval '1 ms')
  from live l
  where x.id = l.id`,
)

/** Counts as a change of the subscriber, and every process that signs hears of it. */
export const touchSubscription = defineStatement(
  'touch_subscription',
  'update __schema__.subscriptions set updated_at = __schema__.clock(), version = version + 1 where no = $1',
)

/** The newest $1 secrets and sealed headers that are in use. */
export const newestSecrets = defineStatement(
  'any_secrets',
  `select x.id, x.sealed
  from __schema__.endpoint_secrets x
  join __schema__.subscriptions s on s.no = x.subscription and s.status <> 'deleted'
  where x.expires_at is null or x.expires_at > __schema__.clock()
  order by x.created_at desc
  limit $1`,
)

/** Secrets that were sealed with another key than the one whose texts begin with $1, after the id $2. */
export const outdatedSecrets = defineStatement(
  'outdated_secrets',
  `select x.id, x.sealed
  from __schema__.endpoint_secrets x
  where not starts_with(x.sealed, $1) and ($2::uuid is null or x.id > $2::uuid)
  order by x.id
  limit $3`,
)

/** Only if the secret has not changed meanwhile. */
export const resealSecret = defineStatement(
  'reseal_secret',
  'update __schema__.endpoint_secrets set sealed = $2 where id = $1 and sealed = $3',
)

/**
 * The endpoint of the subscription $1, or of all webhook subscriptions if $1 is null, with the secrets that are valid now, the
 * newest first, and the sealed headers.
 */
export const listEndpoints = defineStatement(
  'list_endpoints',
  `select e.subscription, e.url, e.headers, e.format, e.rules,
    coalesce((select json_agg(json_build_object('id', x.id, 'sealed', x.sealed,
       'expiresAtMs', extract(epoch from x.expires_at) * 1000) order by x.created_at desc)
     from __schema__.endpoint_secrets x
     where x.subscription = e.subscription and x.header is null
       and (x.expires_at is null or x.expires_at > __schema__.clock())), '[]') as secrets,
    coalesce((select json_agg(json_build_object('id', x.id, 'name', x.header, 'sealed', x.sealed))
     from __schema__.endpoint_secrets x
     where x.subscription = e.subscription and x.header is not null), '[]') as "sealedHeaders"
  from __schema__.endpoints e
  join __schema__.subscriptions s on s.no = e.subscription and s.status <> 'deleted'
  where $1::int is null or e.subscription = $1
  order by e.subscription`,
)
