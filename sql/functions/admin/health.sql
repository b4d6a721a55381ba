-- Is everything well?  One row per check, with what to do where it is not.
create or replace function penstock.health() returns table (name text, ok boolean, detail text, advice text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select 'schema', true, format('version %s on PostgreSQL %s', penstock.schema_version(), current_setting('server_version')), null::text
    union all
    select 'cluster', i.xmin = c.incarnation_xid,
        case when i.xmin = c.incarnation_xid then 'the log belongs to this cluster' else 'the log was restored from another cluster' end,
        case when i.xmin <> c.incarnation_xid then 'stop all clients and run select penstock.rebase()' end
    from penstock_data.settings c, penstock_data.incarnation i
    union all
    select 'clock', c.clock_shift = '0',
        case when c.clock_shift = '0' then 'the database''s clock' else format('moved by %s', c.clock_shift) end,
        case when c.clock_shift <> '0' then 'advance_clock() is for tests: move it back' end
    from penstock_data.settings c
    union all
    select 'claim locks', count(*) = 0,
        case when count(*) = 0 then 'no claim holds its queue for long'
             else format('backend %s holds the claim lock of %s', string_agg(l.pid::text, ', '), string_agg(quote_literal(q.name), ', ')) end,
        case when count(*) > 0 then 'claim in short transactions of their own; others get no messages meanwhile' end
    from pg_locks l
    join penstock_data.queues q on hashtext(q.name) = l.objid::bigint::bit(32)::int
    where l.locktype = 'advisory' and l.classid::bigint = 1346719315 and l.objsubid = 2 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and l.pid <> pg_backend_pid()
      and exists (select from pg_locks o where o.pid = l.pid and o.waitstart is null)
      and exists (select from pg_stat_get_activity(l.pid) a where a.xact_start < clock_timestamp() - interval '1 second')
    union all
    select 'log', not c.log_is_full,
        format('%s in %s segments', pg_size_pretty(penstock_data.log_bytes()),
            (select count(*) from penstock_data.segments s where s.kind = 'messages' and s.opened_at is not null)),
        case when c.log_is_full then 'publishing is refused: consume or delete what lags, or raise max_log_bytes' end
    from penstock_data.settings c
    union all
    select 'housekeeping', count(*) < 10000, format('%s old positions', count(*)),
        case when count(*) >= 10000 then 'call penstock.maintain() every minute or so' end
    from (select from penstock_data.positions limit 10000) p
    union all
    select 'exclusive queues', count(*) = 0, format('%s ended', count(*)),
        case when count(*) > 0 then 'call penstock.maintain(), which deletes them' end
    from penstock_data.keep_alives k where k.until <= penstock_data.clock()
    union all
    select 'dead letters', count(*) = 0, format('%s waiting for a decision', count(*)),
        case when count(*) > 0 then 'see penstock.list_dlq_messages(), then requeue or purge them' end
    from penstock_data.dead_letters
    union all
    select 'roles', count(*) = 4, format('%s of 4 exist', count(*)),
        case when count(*) < 4 then 'a role with CREATEROLE must run sql/install.sql once more' end
    from pg_roles r where r.rolname in ('penstock_publisher', 'penstock_consumer', 'penstock_monitor', 'penstock_admin')
    union all select * from penstock_data.check_settings()
    union all select * from penstock_data.check_old_transactions('15 minutes')
    union all select * from penstock_data.check_prepared_transactions('15 minutes')
    union all select * from penstock_data.check_slots()
    union all select * from penstock_data.check_wraparound(500000000)
    union all select * from penstock_data.check_segments(16)
    union all select * from penstock_data.check_indexes()
$$;
comment on function penstock.health() is 'Is everything well?  One row per check.';
