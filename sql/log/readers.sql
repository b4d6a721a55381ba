-- A reader that exists, or the error that says so.
create or replace function penstock_data.reader_named(p_name text) returns penstock_data.readers
language plpgsql stable as $$
declare
    v_reader penstock_data.readers;
begin
    perform penstock_data.check_name('reader', p_name);
    select * into v_reader from penstock_data.readers r where r.name = p_name;
    if not found then
        perform penstock_data.fail('PS003', format('reader %L does not exist', p_name));
    elsif not penstock_data.is_permitted(v_reader.consumers) then
        perform penstock_data.fail('PS009', format('role %I may not use reader %L', penstock_data.caller(), p_name));
    end if;
    perform penstock_data.check_incarnation();
    return v_reader;
end
$$;

-- The newest position of a reader.
create or replace function penstock_data.reader_position(p_reader_id bigint) returns setof penstock_data.reader_positions
language sql stable rows 1 as $$
    select * from penstock_data.reader_positions p where p.reader_id = p_reader_id order by p.seq desc limit 1
$$;

-- Readings and commits of a reader take turns: the lock of its row, held until the transaction ends.
create or replace function penstock_data.lock_reader(p_reader_id bigint) returns void
language sql as $$
    select from penstock_data.readers r where r.id = p_reader_id for no key update
$$;

-- A position with an open window: its own, else the next one, which reaches to the end of the log.
create or replace function penstock_data.opened_window(p_position penstock_data.reader_positions) returns penstock_data.reader_positions
language plpgsql as $$
begin
    if p_position.last_id is null then
        p_position.window_from := p_position.window_to;
        p_position.window_to := penstock_data.snapshot_without_me(pg_current_snapshot());
        p_position.from_id := p_position.next_from_id;
        p_position.to_id := penstock_data.last_message_id();
        p_position.last_id := 0;
    end if;
    return p_position;
end
$$;

-- What a reader has of its window from last_id on, in the order of ids.
create or replace function penstock_data.window_rows(
    p_topic_id bigint, p_position penstock_data.reader_positions, p_limit int
) returns setof penstock_data.messages
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_sort = off set jit = off as $$
declare
    v_late xid8[] := penstock_data.late_xids(p_position.window_from, p_position.window_to);
    v_open xid8[] := penstock_data.open_xids(p_position.window_to);
begin
    return query
    select * from (
        (select m.*
        from unnest(v_late) as late(xid)
        cross join lateral (
            select * from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_topic_id and m.xid <= late.xid and (m.xid, m.id) > (late.xid, p_position.last_id)
              and (p_position.starts_at is null or m.published_at >= p_position.starts_at)
            order by m.xid, m.id limit p_limit) m)
        union all
        (select * from penstock_data.messages m
        where m.segment > 0 and m.topic_id = p_topic_id
          and m.id > greatest(p_position.from_id, p_position.last_id) and m.id <= p_position.to_id
          and m.xid >= pg_snapshot_xmax(p_position.window_from) and m.xid < pg_snapshot_xmax(p_position.window_to)
          and m.xid <> all (v_open)
          and (p_position.starts_at is null or m.published_at >= p_position.starts_at)
        order by m.id limit p_limit)
    ) m
    order by m.id limit p_limit;
end
$$;

-- Append a reader's position.  Under REPEATABLE READ a position that is no longer the newest is a serialization error,
-- as in guard_position.
create or replace function penstock_data.append_reader_position(p_position penstock_data.reader_positions) returns void
language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform from penstock_data.reader_positions p
        where p.reader_id = p_position.reader_id and p.seq = p_position.seq for update;
    end if;
    p_position.seq := p_position.seq + 1;
    insert into penstock_data.reader_positions select p_position.* on conflict do nothing;
end
$$;
