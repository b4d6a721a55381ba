-- The engine's time: the database's clock, which tests may move.
-- PL/pgSQL keeps its plan; before PostgreSQL 18 a function in plain SQL is planned with every call.
create or replace function penstock_data.clock() returns timestamptz
language plpgsql volatile as $$
begin
    return (select clock_timestamp() + s.clock_shift from penstock_data.settings s);
end
$$;
