-- Access keys of the SQS server.  A secret lies here sealed (AES-256-GCM under a key that only the server has): a
-- signature is computed from the secret itself, so it can't be a hash.
create table if not exists pgqs_data.access_keys (
    access_key     text primary key check (access_key ~ '^[A-Za-z0-9_-]{3,128}$'),
    sealed_secret  text not null,
    account        text not null check (account ~ '^\d{12}$'),
    role           text not null check (role in ('admin', 'publisher', 'consumer', 'monitor')),
    queues         text[] not null default '{}',       -- patterns; none: every queue of the account
    name           text not null default '',
    created_at     timestamptz not null default now()
);

-- Add an access key, or replace the one of the same id.
-- Roles: admin
create or replace function pgqs.put_access_key(
    access_key text, sealed_secret text, account text, role text, queues text[] default '{}', name text default ''
) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into pgqs_data.access_keys (access_key, sealed_secret, account, role, queues, name)
    values ($1, $2, $3, $4, coalesce($5, '{}'), coalesce($6, ''))
    on conflict (access_key) do update set sealed_secret = excluded.sealed_secret, account = excluded.account,
        role = excluded.role, queues = excluded.queues, name = excluded.name
$$;
comment on function pgqs.put_access_key(text, text, text, text, text[], text) is 'Add or replace an access key of the SQS server.';

-- Forget an access key.  Returns false when there is none of this id.
-- Roles: admin
create or replace function pgqs.delete_access_key(access_key text) returns boolean
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    with gone as (delete from pgqs_data.access_keys k where k.access_key = $1 returning true)
    select exists (select from gone)
$$;
comment on function pgqs.delete_access_key(text) is 'Forget an access key of the SQS server.';

-- Every access key with its sealed secret: for the server.
-- Roles: admin
create or replace function pgqs.list_access_keys()
returns table (access_key text, sealed_secret text, account text, role text, queues text[], name text, created_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select k.access_key, k.sealed_secret, k.account, k.role, k.queues, k.name, k.created_at
    from pgqs_data.access_keys k order by k.created_at, k.access_key
$$;
comment on function pgqs.list_access_keys() is 'Every access key of the SQS server, secrets sealed.';
