-- Is everything well?  One row per check, with what to do where it is not.
-- Roles: monitor, admin
create or replace function penstock.health() returns table (name text, ok boolean, detail text, advice text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select 'schema', true, format('version %s on PostgreSQL %s', penstock.schema_version(), current_setting('server_version')), null::text
    union all
    select 'cluster', f.fault is null, coalesce(f.fault, 'the log belongs to this cluster'),
        case when f.fault is not null then 'stop all clients and run select penstock.rebase()' end
    from penstock_data.foreign_log() f(fault)
    union all
    select 'clock', c.clock_shift = '0',
        case when c.clock_shift = '0' then 'the database''s clock' else format('moved by %s', c.clock_shift) end,
        case when c.clock_shift <> '0' then 'advance_clock() is for tests: move it back' end
    from penstock_data.settings c
    union all
    select 'claim locks', count(*) = 0,
        case when count(*) = 0 then 'no claim holds its queue for long'
             else format('backend %s holds the claim lock of %s', string_agg(h.pid::text, ', '), string_agg(quote_literal(h.queue_name), ', ')) end,
        case when count(*) > 0 then 'claim in short transactions of their own; others get no messages meanwhile' end
    from penstock_data.claim_lock_holders('1 second') h
    union all
    select 'log', not c.log_is_full,
        format('%s in %s segments', pg_size_pretty(penstock_data.log_bytes()),
            (select count(*) from penstock_data.segments s where s.kind = 'messages' and s.opened_at is not null)),
        case when c.log_is_full then 'publishing is refused: consume or delete what lags, or raise max_log_bytes' end
    from penstock_data.settings c
    union all
    select 'housekeeping', count(*) < 10000, format('%s old positions', count(*)),
        case when count(*) >= 10000 then 'call penstock.run_maintenance() every minute or so' end
    from (select from penstock_data.positions limit 10000) p
    union all
    select 'exclusive queues', count(*) = 0, format('%s ended', count(*)),
        case when count(*) > 0 then 'call penstock.run_maintenance(), which deletes them' end
    from penstock_data.keep_alives k where k.until <= penstock_data.clock()
    union all
    select 'dead letters', count(*) = 0, format('%s waiting for a decision', count(*)),
        case when count(*) > 0 then 'see penstock.list_dlq_messages(), then requeue or purge them' end
    from penstock_data.dead_letters
    union all
    select 'roles', count(*) = 4, format('%s of 4 exist', count(*)),
        case when count(*) < 4 then 'a role with CREATEROLE must run sql/install.sql once more' end
    from pg_roles r where r.rolname in ('penstock_publisher', 'penstock_consumer', 'penstock_monitor', 'penstock_admin')
    union all select * from penstock_data.check_maintenance_steps()
    union all select * from penstock_data.check_settings()
    union all select * from penstock_data.check_sight()
    union all select * from penstock_data.check_old_transactions('15 minutes')
    union all select * from penstock_data.check_prepared_transactions('15 minutes')
    union all select * from penstock_data.check_slots()
    union all select * from penstock_data.check_wraparound(500000000)
    union all select * from penstock_data.check_segments('1 day')
    union all select * from penstock_data.check_indexes()
$$;
comment on function penstock.health() is 'Is everything well?  One row per check.';
