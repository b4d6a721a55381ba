-- Create a named reader of a topic's log: a position that claims nothing and sees every message exactly once, in the
-- order of ids within each window.  Keeps the log until it has committed it.  Returns its id; the same reader again is
-- returned as it is.  start_at as for queues.
-- Roles: admin
create or replace function penstock.create_reader(reader_name text, topic_name text, start_at text default 'end') returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_topic_id bigint;
    v_reader   penstock_data.readers;
    v_since    timestamptz := penstock_data.start_time(coalesce(start_at, 'null'));
    v_from_id  bigint := 0;
    v_start    pg_snapshot;
begin
    perform penstock_data.check_name('reader', reader_name);
    v_topic_id := penstock_data.topic_id(topic_name);
    insert into penstock_data.readers as r (name, topic_id) values (reader_name, v_topic_id)
    on conflict (name) do nothing returning * into v_reader;
    if v_reader.id is null then
        select * into v_reader from penstock_data.readers r where r.name = reader_name;
        if v_reader.topic_id <> v_topic_id then
            perform penstock_data.fail('PS006', format('reader %L exists on another topic', reader_name));
        end if;
        return v_reader.id;
    end if;
    v_start := penstock_data.before_everything();
    if start_at = 'end' then
        select b.p_snapshot, b.p_id into v_start, v_from_id
        from penstock_data.bound_window(penstock_data.snapshot_without_me(pg_current_snapshot()), null, 0) b;
    end if;
    insert into penstock_data.reader_positions (reader_id, seq, window_from, window_to, from_id, to_id, next_from_id, starts_at)
    values (v_reader.id, 1, v_start, v_start, 0, 0, v_from_id, v_since);
    return v_reader.id;
end
$$;
comment on function penstock.create_reader(text, text, text) is 'Create a named reader of a topic''s log; returns its id.';

-- Delete a reader.
-- Roles: admin
create or replace function penstock.delete_reader(reader_name text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reader penstock_data.readers := penstock_data.reader_named(reader_name);
begin
    delete from penstock_data.readers r where r.id = v_reader.id;
    delete from penstock_data.reader_positions p where p.reader_id = v_reader.id;
end
$$;
comment on function penstock.delete_reader(text) is 'Delete a reader; the log is no longer kept for it.';

-- All readers with how far they are: lag counts the messages not committed yet.
-- Roles: monitor, admin
create or replace function penstock.list_readers()
returns table (id bigint, name text, topic_name text, created_at timestamptz, committed_at timestamptz, lag bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select r.id, r.name, t.name, r.created_at, p.committed_at,
        (select count(*) from penstock_data.messages m
         where m.segment > 0 and m.topic_id = r.topic_id and m.xid >= pg_snapshot_xmin(p.window_from)
           and (p.starts_at is null or m.published_at >= p.starts_at)
           and (not pg_visible_in_snapshot(m.xid, p.window_to)
                or p.last_id is not null and not pg_visible_in_snapshot(m.xid, p.window_from) and m.id > p.last_id))
    from penstock_data.readers r
    join penstock_data.topics t on t.id = r.topic_id
    cross join lateral penstock_data.reader_position(r.id) p
    order by r.name
$$;
comment on function penstock.list_readers() is 'All readers with their lag.';
