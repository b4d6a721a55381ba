-- The version of the installed schema.  Clients compare it with the one they were made for.
-- Roles: publisher, consumer, monitor, admin
create or replace function penstock.schema_version() returns int
language sql immutable as $$ select 1 $$;
comment on function penstock.schema_version() is 'The version of the installed schema.';

-- Counts the additions to the public functions of one version.  A client works with the revision that it was made for
-- and with every later one, so clients of an earlier release go on after an upgrade.
-- Roles: publisher, consumer, monitor, admin
create or replace function penstock.schema_revision() returns int
language sql immutable as $$ select 1 $$;
comment on function penstock.schema_revision() is 'Counts the additions to the public functions of one schema version.';

-- What names the scripts that installed the schema, so that two builds of one version can be told apart.  Null: psql
-- ran them, which can't know their text; `penstock init` puts the fingerprint in.
-- Roles: publisher, consumer, monitor, admin
create or replace function penstock.schema_fingerprint() returns text
language sql immutable as $$ select null::text $$;
comment on function penstock.schema_fingerprint() is 'What names the scripts that installed the schema; null when psql ran them.';

-- Every error of Penstock's own: code, cause and cure.
-- Roles: publisher, consumer, monitor, admin
create or replace function penstock.error_codes() returns table (code text, name text, cause text, cure text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select e.code, e.name, e.cause, e.cure from penstock_data.error_codes e order by e.code
$$;
comment on function penstock.error_codes() is 'Every error of Penstock''s own: code, cause and cure.';
