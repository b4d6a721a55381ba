-- The piece of the log between two offsets of a stream.
create or replace function penstock_data.window_between(p_start jsonb, p_end jsonb) returns penstock_data.log_window
language plpgsql stable as $$
declare
    v_window penstock_data.log_window;
    v_to     jsonb := coalesce(p_end -> 'to', p_end);
begin
    v_window.window_from := p_start ->> 'snap';
    v_window.window_to := v_to ->> 'snap';
    v_window.from_id := coalesce((p_start ->> 'next')::bigint, 0);
    v_window.after_id := coalesce((p_start ->> 'id')::bigint, 0);
    v_window.through_id := coalesce((p_end ->> 'id')::bigint, (v_to ->> 'last')::bigint);
    v_window.since := (p_start ->> 'since')::timestamptz;
    v_window.floors := p_start -> 'floors';
    return v_window;
end
$$;

-- The ids in a piece of the log, in order, with the size of each message when p_sizes; p_limit at most.
create or replace function penstock_data.log_ids(
    p_topic_ids bigint[], p_window penstock_data.log_window, p_limit bigint, p_sizes boolean default false
) returns table (id bigint, bytes int)
language plpgsql stable rows 1000 set plan_cache_mode = force_generic_plan set enable_sort = off set jit = off set work_mem = '64MB' as $$
declare
    v_late xid8[] := penstock_data.late_xids(p_window.window_from, p_window.window_to);
    v_open xid8[] := penstock_data.open_xids(p_window.window_to);
begin
    return query
    with topics as materialized (
        select t.id, coalesce((p_window.floors ->> t.name)::bigint - 1, 0) as floor
        from penstock_data.topics t where t.id = any (p_topic_ids)
    )
    select m.id, m.bytes from (
        (select m.*
        from topics t cross join unnest(v_late) as late(xid)
        cross join lateral (
            select m.id, case when p_sizes then pg_column_size(m.payload) + coalesce(pg_column_size(m.headers), 0) end as bytes
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = t.id and m.xid <= late.xid
              and (m.xid, m.id) > (late.xid, greatest(p_window.after_id, t.floor)) and m.id <= p_window.through_id
              and (p_window.since is null or m.published_at >= p_window.since)
            order by m.xid, m.id limit p_limit) m)
        union all
        (select m.*
        from topics t
        cross join lateral (
            select m.id, case when p_sizes then pg_column_size(m.payload) + coalesce(pg_column_size(m.headers), 0) end as bytes
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = t.id
              and m.id > greatest(p_window.from_id, p_window.after_id, t.floor) and m.id <= p_window.through_id
              and m.xid >= pg_snapshot_xmax(p_window.window_from) and m.xid < pg_snapshot_xmax(p_window.window_to)
              and m.xid <> all (v_open)
              and (p_window.since is null or m.published_at >= p_window.since)
            order by m.id limit p_limit) m)
    ) m
    order by m.id limit p_limit;
end
$$;

-- How much of a piece of the log fits the limits: the number of messages, the id of the last, and whether that is all.
create or replace function penstock_data.fitting(
    p_topic_ids bigint[], p_window penstock_data.log_window, p_max_rows bigint, p_max_bytes bigint,
    out v_rows bigint, out v_last_id bigint, out v_all boolean
)
language plpgsql stable as $$
declare
    c_step  constant bigint := 10000;
    v_bytes bigint := 0;
    v_found bigint;
    v_row   record;
begin
    v_rows := 0;
    if p_max_bytes is null then
        -- With one too many, the last is the first that does not fit.
        select count(*), max(l.id) - 1 into v_rows, v_last_id from penstock_data.log_ids(p_topic_ids, p_window, p_max_rows + 1) l;
        v_all := v_rows <= p_max_rows;
        v_rows := least(v_rows, p_max_rows);
        return;
    end if;
    loop
        v_found := 0;
        for v_row in select l.id, l.bytes from penstock_data.log_ids(p_topic_ids, p_window, c_step, true) l loop
            v_found := v_found + 1;
            v_bytes := v_bytes + v_row.bytes;
            -- One message at least, or a large one would never be read.
            if v_rows > 0 and (v_bytes > p_max_bytes or v_rows >= p_max_rows) then
                v_all := false;
                return;
            end if;
            v_rows := v_rows + 1;
            v_last_id := v_row.id;
        end loop;
        if v_found < c_step then
            v_all := true;
            return;
        end if;
        p_window.after_id := v_last_id;
    end loop;
end
$$;

-- The lowest id of some topics in the log, less one: nothing need be looked for below.
create or replace function penstock_data.below_log(p_topic_ids bigint[]) returns bigint
language sql stable as $$
    select coalesce(min(m.id) - 1, 0)
    from unnest(p_topic_ids) as t(id)
    cross join lateral (
        select m.id from penstock_data.messages m where m.segment > 0 and m.topic_id = t.id order by m.id limit 1) m
$$;

-- Cut a piece of the log after every p_rows-th message.
create or replace function penstock_data.cut_by_count(p_topic_ids bigint[], p_window penstock_data.log_window, p_rows bigint)
returns table (after_id bigint, through_id bigint)
language sql stable as $$
    select coalesce(lag(c.id) over (order by c.id), (p_window).after_id), c.id
    from (
        select i.id, i.place, count(*) over () as total
        from (
            select l.id, row_number() over (order by l.id) as place
            from penstock_data.log_ids(p_topic_ids, p_window, null) l
        ) i
    ) c
    where c.place % p_rows = 0 or c.place = c.total
$$;

-- The end of the log now.  p_floor: an id above which all messages lie that an earlier point did not see.
create or replace function penstock_data.point_now(p_floor bigint) returns jsonb
language plpgsql as $$
declare
    v_snapshot pg_snapshot := penstock_data.snapshot_without_me(pg_current_snapshot());
    v_last     bigint := penstock_data.last_message_id();
begin
    return penstock_data.bounded_point(v_snapshot, v_last, p_floor);
end
$$;

-- A point from a snapshot and the highest id drawn since.
create or replace function penstock_data.bounded_point(p_snapshot pg_snapshot, p_last bigint, p_floor bigint) returns jsonb
language sql as $$
    select jsonb_build_object('snap', b.p_snapshot, 'next', b.p_id, 'last', p_last)
    from penstock_data.bound_window(p_snapshot, null, p_floor) b
$$;
