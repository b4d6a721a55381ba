-- The schemas, and the guard that keeps an older script from touching a newer installation.
-- penstock holds what people call, penstock_data what only the engine touches.
-- One installation at a time: the second waits and then finds everything in place.  A table is locked, because any role
-- that may connect can hold an advisory lock; only before the first installation is there no table.
do $$
begin
    if to_regclass('penstock_data.settings') is not null then
        lock table penstock_data.settings in share row exclusive mode;
    else
        perform pg_advisory_xact_lock(1346719318, 0);
    end if;
end
$$;
create schema if not exists penstock;
create schema if not exists penstock_data;
create schema if not exists penstock_stage;
\ir ../sqs/schema.sql

comment on schema penstock is 'Penstock: the functions and views of the message queue';
comment on schema penstock_stage is 'Penstock: what bulk writes have staged and not committed yet';
comment on schema penstock_data is 'Penstock: tables and internal functions; no role is granted anything here';

do $$
declare
    v_installed int;
begin
    if current_setting('server_version_num')::int < 140000 then
        raise exception 'Penstock needs PostgreSQL 14 or newer, this server is %', current_setting('server_version')
            using errcode = 'PS012', hint = 'Install into a newer server.';
    end if;
    -- penstock_data.record_migration() asks for it, until the transaction ends.
    perform set_config('penstock.new_installation', (to_regclass('penstock_data.settings') is null)::text, true);
    if to_regprocedure('penstock.schema_version()') is not null then
        execute 'select penstock.schema_version()' into v_installed;
        -- Until sweep.sql, an old signature beside a new one would make calls in function bodies ambiguous.
        perform set_config('check_function_bodies', 'off', true);
        if v_installed > 1 then
            raise exception 'this database has Penstock schema version %, this script installs version 1', v_installed
                using errcode = 'PS012', hint = 'Install with the scripts of the newer release.';
        end if;
    end if;
end
$$;

-- The functions of an earlier installation, as they are now; sweep.sql drops those that stay untouched.
create temporary table penstock_functions_before on commit drop as
select p.oid, p.xmin::text as version from pg_proc p
where p.pronamespace in ('penstock'::regnamespace, 'penstock_data'::regnamespace, 'pgqs'::regnamespace, 'pgqs_data'::regnamespace);
