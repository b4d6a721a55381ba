-- The engine's time: the database's clock, which tests may move.
create or replace function penstock_data.clock() returns timestamptz
language sql volatile as $$
    select clock_timestamp() + s.clock_shift from penstock_data.settings s
$$;
