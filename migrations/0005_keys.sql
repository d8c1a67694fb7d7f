-- Who may call the API, and who changed what. A server that answers others than its own machine asks for a key; of
-- each key only the SHA-256 of its secret is kept, so that a dump of the database lets nobody in. The secret is 256
-- random bits, which nobody can guess from a hash however fast they hash: it needs no slow one.
-- Both tables are for reading by SQL too: `select id, name, state from api_key_states`, `select at, actor, action,
-- target from admin_log order by id desc`.

create table __schema__.api_keys (
  id text primary key check (id ~ '^[a-z0-9]{12}$'),
  name text not null,
  hash bytea not null check (octet_length(hash) = 32),
  scopes text[] not null check (scopes <> '{}' and scopes <@ array['publish', 'consume', 'read', 'manage', 'admin']),
  rate_per_second double precision check (rate_per_second > 0),
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz check (expires_at between timestamptz '2000-01-01 00:00:00+00' and timestamptz '9999-01-01 00:00:00+00'),
  revoked_at timestamptz,
  revoked_by text,
  last_used_at timestamptz             -- to within ten seconds: each process writes the uses of all keys together
);

-- The rule of which key is in force, on the database's clock, so that no node can differ. A view, and not a condition
-- in the statement: a plain select is known to change nothing, so a connection that breaks in it leaves no doubt.
create view __schema__.api_key_states as
  select k.id, k.name, k.hash, k.scopes, k.rate_per_second, k.created_at, k.created_by, k.expires_at, k.revoked_at,
    k.revoked_by, k.last_used_at,
    case
      when k.revoked_at is not null then 'revoked'
      when k.expires_at <= __schema__.clock() then 'expired'
      else 'active'
    end as state
  from __schema__.api_keys k;

-- Every action that changes something by hand or by an operator's key.
create table __schema__.admin_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default __schema__.clock(),
  actor text not null,                 -- the key's id, admin, or who ran the command line
  action text not null,                -- key.create, key.revoke …
  target text,
  details json,
  remote text                          -- the address it came from
);

-- It only grows. This stops mistakes and statements that somebody slipped in. The owner of the schema can still take
-- the trigger away; let the server run as another role where that matters.
create function __schema__.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '%.% only grows: % is refused', tg_table_schema, tg_table_name, lower(tg_op)
    using errcode = 'object_not_in_prerequisite_state';
end $$;
create trigger admin_log_grows before update or delete or truncate on __schema__.admin_log
  for each statement execute function __schema__.refuse_change();
-- Else a session that plays a replica would pass it.
alter table __schema__.admin_log enable always trigger admin_log_grows;
