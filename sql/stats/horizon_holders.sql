-- Who keeps vacuum from cleaning up: transactions, prepared transactions and replication slots whose snapshot is older
-- than min_age (slots have no age: they are told when they hold a snapshot at all).  Oldest first, 20 at most.
-- Sessions of other roles are seen when the owner of the engine is a superuser or a member of pg_read_all_stats.
-- Roles: monitor, admin
create or replace function penstock.horizon_holders(min_age interval default '1 minute')
returns table (kind text, name text, pid int, application text, state text, since timestamptz, xmin_age bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select h.kind, h.name, h.pid, h.application, h.state, h.since, h.xmin_age
    from (
        select 'transaction', a.usename::text, a.pid, a.application_name, a.state, a.xact_start,
            greatest(age(a.backend_xmin), age(a.backend_xid))::bigint
        from pg_stat_activity a
        where a.xact_start < clock_timestamp() - min_age and (a.backend_xmin is not null or a.backend_xid is not null)
          and a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
        union all
        select 'prepared transaction', p.gid, null, null, null, p.prepared, age(p.transaction)::bigint
        from pg_prepared_xacts p
        where p.prepared < clock_timestamp() - min_age and p.database = current_database()
        union all
        select 'replication slot', s.slot_name::text, s.active_pid, s.plugin::text, case when s.active then 'active' else 'inactive' end,
            null, greatest(age(s.xmin), age(s.catalog_xmin))::bigint
        from pg_replication_slots s where s.xmin is not null
    ) h (kind, name, pid, application, state, since, xmin_age)
    order by h.since nulls first limit 20
$$;
comment on function penstock.horizon_holders(interval) is 'Who keeps vacuum from cleaning up.';
