-- What health() looks at beyond the engine's own tables: the server it lives on.  One function a check; those that need
-- a threshold take it as a parameter.
create or replace function penstock_data.check_settings() returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'settings', f.bad is null or s.throwaway,
        case when f.bad is null then 'durable, and vacuumed' when s.throwaway then f.bad || ', on a throw-away server' else f.bad end,
        case when f.bad is not null and not s.throwaway then 'turn it on in postgresql.conf and reload: else messages may be lost in a crash, or tables grow without end' end
    from (
        select string_agg(p.name || ' is off', ', ' order by p.name) as bad from pg_settings p
        where p.name in ('autovacuum', 'fsync', 'full_page_writes', 'synchronous_commit', 'track_counts') and p.setting = 'off'
    ) f, (select coalesce(current_setting('penstock.throwaway', true), '') = 'on' as throwaway) s
$$;

-- health() runs with the rights of the owner, who sees when other roles' transactions began only as a superuser or a
-- member of pg_read_all_stats.
create or replace function penstock_data.check_sight() returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'sight', s.full_sight,
        case when s.full_sight then 'sessions of all roles are seen'
             else format('role %I does not see the transactions of other roles: ''claim locks'' and ''old transactions'' may miss some', current_user) end,
        case when not s.full_sight then format('grant pg_read_all_stats to %I', current_user) end
    from (select pg_has_role(current_user, 'pg_read_all_stats', 'usage') as full_sight) s
$$;

create or replace function penstock_data.check_old_transactions(p_age interval)
returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'old transactions', count(*) = 0,
        case when count(*) = 0 then format('none older than %s', p_age)
             else format('%s, the oldest since %s: %s', count(*), min(h.since), string_agg(format('backend %s of %s', h.pid, h.name), ', ')) end,
        case when count(*) > 0 then 'they keep vacuum from cleaning up: end them, or select pg_terminate_backend(pid)' end
    from penstock.horizon_holders(p_age) h where h.kind = 'transaction'
$$;

create or replace function penstock_data.check_prepared_transactions(p_age interval)
returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'prepared transactions', count(*) = 0,
        case when count(*) = 0 then format('none older than %s', p_age)
             else format('%s, the oldest since %s: %s', count(*), min(h.since), string_agg(quote_literal(h.name), ', ')) end,
        case when count(*) > 0 then 'they do not end by themselves: commit prepared or rollback prepared' end
    from penstock.horizon_holders(p_age) h where h.kind = 'prepared transaction'
$$;

-- A step of housekeeping fails, or has not been done for a day.  A lock that can't be had now and then is no failure
-- yet.
create or replace function penstock_data.check_maintenance_steps() returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'maintenance', count(*) = 0,
        coalesce(string_agg(b.fault, '; ' order by b.place), 'every step is done'),
        case when bool_or(b.failing_since is not null) then 'mend the cause, and see select * from penstock.maintain_step(step)'
             when count(*) > 0 then 'run penstock maintain --every 30s, or call penstock.run_maintenance() every minute' end
    from (
        select m.place, m.failing_since,
            case when m.failing_since is null then format('%L has not been done since %s', m.step, date_trunc('minute', m.done_at))
                else format('%L fails since %s, %s times: %s', m.step, date_trunc('second', m.failing_since), m.failures, m.error) end as fault
        from penstock_data.maintenance m cross join (select penstock_data.clock() as now) c
        where m.failing_since is not null and (m.code not in ('55P03', '40P01') or m.failing_since <= c.now - interval '10 minutes')
           or m.failing_since is null and m.done_at < c.now - interval '1 day'
    ) b
$$;

-- A replication slot without a reader keeps WAL, and if it has an xmin also dead rows, until the disk is full.
create or replace function penstock_data.check_slots() returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'replication slots', count(*) filter (where not s.active) = 0,
        format('%s, of which %s unused%s', count(*), count(*) filter (where not s.active),
            ': ' || string_agg(s.slot_name::text, ', ') filter (where not s.active)),
        case when count(*) filter (where not s.active) > 0 then 'an unused slot keeps WAL for ever: start its reader, or select pg_drop_replication_slot(name)' end
    from pg_replication_slots s
$$;

create or replace function penstock_data.check_wraparound(p_age bigint) returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'wraparound', a.age < p_age, format('%s transactions of 2,147 million since the oldest freeze', a.age),
        case when a.age >= p_age then 'vacuum falls behind: look for held snapshots, then vacuum (freeze) the oldest tables' end
    from (select greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) as age from pg_database d where d.datname = current_database()) a
$$;

-- A segment that waits to be emptied for longer than any retention of a topic explains.
create or replace function penstock_data.check_segments(p_age interval) returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    select 'segments', count(*) filter (where s.late) = 0,
        format('%s wait to be emptied, %s for longer than %s', count(*), count(*) filter (where s.late), p_age),
        case when count(*) filter (where s.late) > 0
            then 'something has not read them: see held_by of penstock.segment_overview(), and call penstock.run_maintenance()' end
    from (
        select s.closed_at + coalesce((select max(t.retention) from penstock_data.topics t), '0') + p_age < penstock_data.clock() as late
        from penstock_data.segments s where s.kind = 'messages' and s.closed_at is not null
    ) s
$$;

create or replace function penstock_data.check_indexes() returns table (name text, ok boolean, detail text, advice text)
language sql stable as $$
    with wanted as (
        select unnest(array['messages_window', 'messages_id', 'messages_flagged', 'receipts_window', 'scheduled_due', 'scheduled_ranked',
            'scheduled_given_back', 'claims_deadline', 'queues_topic', 'dedupe_keys_until', 'waiting_topic', 'backlog_message', 'stream_marks_newest', 'stream_marks_of_stream',
            'scheduled_expiring', 'backlog_expiring', 'renewals_over']) as name
    ), bad as (
        select w.name || ' is missing' as fault from wanted w
        where not exists (select from pg_class c where c.relname = w.name and c.relnamespace = 'penstock_data'::regnamespace and c.relkind in ('i', 'I'))
        union all
        select c.relname || ' is invalid' from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = 'penstock_data'::regnamespace and not (i.indisvalid and i.indisready)
    )
    select 'indexes', count(*) = 0, coalesce(string_agg(b.fault, ', ' order by b.fault), 'all there and valid'),
        case when count(*) > 0 then 'run sql/install.sql (or penstock init), which creates what is missing; reindex what is invalid' end
    from bad b
$$;
