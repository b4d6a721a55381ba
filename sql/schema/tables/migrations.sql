-- Which changes of its tables this database has: a row for each file of sql/schema/migrations.
create table if not exists penstock_data.migrations (
    number      int         primary key,
    name        text        not null,
    applied_at  timestamptz not null default clock_timestamp()
);

-- Record a migration; true when it has to run.  A new installation runs none: its tables were created with the changes.
create or replace function penstock_data.record_migration(p_number int, p_name text) returns boolean
language plpgsql as $$
declare
    v_is_new boolean;
begin
    insert into penstock_data.migrations (number, name) values (p_number, p_name) on conflict do nothing;
    v_is_new := found;
    -- For unknown_migrations.sql.
    perform set_config('penstock.newest_migration', p_number::text, true);
    return v_is_new and current_setting('penstock.new_installation', true) is distinct from 'true';
end
$$;

-- Whether a table has a column.  `alter table … add column if not exists` locks the table even if the column is there.
create or replace function penstock_data.has_column(p_table regclass, p_column name) returns boolean
language sql stable as $$
    select exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = p_table and a.attname = p_column and not a.attisdropped)
$$;
