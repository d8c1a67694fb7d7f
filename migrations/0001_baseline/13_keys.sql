-- API keys and the admin log: who may call the API, and who changed what.
--
-- A server that listens beyond its own machine requires a key. The database has only the SHA-256 of each secret, so a dump
-- of it opens nothing. A secret is 256 random bits, which nobody can find by guessing: a slow hash is not needed.
--
-- Both are also for reading by SQL:
--   select id, name, state from posthorn.api_key_states;
--   select at, actor, action, target from posthorn.admin_log order by id desc;

-- One row per key. A revoked key stays, so that the admin log can name it.
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

-- Which keys are in force, by the database's clock, so that all nodes agree. It is a view, not a condition of an update: a
-- select changes nothing, so it can be repeated after a broken connection.
create view __schema__.api_key_states as
  select k.id, k.name, k.hash, k.scopes, k.rate_per_second, k.created_at, k.created_by, k.expires_at, k.revoked_at,
    k.revoked_by, k.last_used_at,
    case
      when k.revoked_at is not null then 'revoked'
      when k.expires_at <= __schema__.clock() then 'expired'
      else 'active'
    end as state
  from __schema__.api_keys k;

-- Every change that a person makes, by an API key or on the command line.
create table __schema__.admin_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default __schema__.clock(),
  actor text not null,                 -- the id of the key, admin, or the user of the command line
  action text not null,                -- key.create, key.revoke …
  target text,
  details json,
  remote text                          -- the address the request came from
);

-- Rows cannot be changed, and cannot be deleted for 90 days. This stops mistakes and injected statements. The owner of the
-- schema can still drop the triggers: where that matters, let the server run as another role.
create function __schema__.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '%.% only grows: % is refused', tg_table_schema, tg_table_name, lower(tg_op)
    using errcode = 'object_not_in_prerequisite_state';
end $$;
create trigger admin_log_grows before update or truncate on __schema__.admin_log
  for each statement execute function __schema__.refuse_change();
create trigger admin_log_keeps before delete on __schema__.admin_log
  for each row when (old.at >= __schema__.clock() - interval '90 days')
  execute function __schema__.refuse_change();
-- `always`, because a session in the replica role would skip the triggers otherwise.
alter table __schema__.admin_log enable always trigger admin_log_grows;
alter table __schema__.admin_log enable always trigger admin_log_keeps;
