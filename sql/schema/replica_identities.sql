-- Every table without a primary key tells changes by its whole rows.  Else a publication of all tables (change capture,
-- an upgrade by logical replication) would refuse each update and delete.  Unlogged tables are never published.
do $$
declare
    v_table regclass;
begin
    for v_table in
        select c.oid::regclass from pg_class c
        where c.relnamespace in ('penstock_data'::regnamespace, 'pgqs_data'::regnamespace)
          and c.relkind in ('r', 'p') and c.relpersistence = 'p' and c.relreplident = 'd'
          and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
    loop
        execute format('alter table %s replica identity full', v_table);
    end loop;
end
$$;
