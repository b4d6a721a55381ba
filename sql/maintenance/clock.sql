-- The engine's time, by which delays, claims and schedules are counted: the database's clock, which tests may move.
-- Roles: publisher, consumer, monitor, admin
create or replace function penstock.clock() returns timestamptz
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select penstock_data.clock()
$$;
comment on function penstock.clock() is 'The engine''s time: the database''s clock, which tests may move.';
