-- The piece of the log between two offsets of a stream.
create or replace function penstock_data.window_between(p_start jsonb, p_end jsonb) returns penstock_data.log_window
language plpgsql stable as $$
declare
    v_window penstock_data.log_window;
    v_to     jsonb := coalesce(p_end -> 'to', p_end);
begin
    if p_end ? 'catch_up' then
        return penstock_data.catch_up_window(p_start, p_end -> 'catch_up');
    end if;
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

-- The piece of the log of a topic that catches up: up to the point of the offset where the batch begins.
create or replace function penstock_data.catch_up_window(p_start jsonb, p_catch_up jsonb) returns penstock_data.log_window
language plpgsql stable as $$
declare
    v_window penstock_data.log_window;
begin
    v_window.window_from := p_catch_up #>> '{from,snap}';
    v_window.window_to := p_start ->> 'snap';
    v_window.from_id := coalesce((p_catch_up #>> '{from,next}')::bigint, 0);
    v_window.after_id := case when penstock_data.is_catching_up(p_start, p_catch_up) then (p_start #>> '{catch_up,id}')::bigint else 0 end;
    v_window.through_id := coalesce((p_catch_up ->> 'id')::bigint, (p_start ->> 'last')::bigint, 0);
    v_window.since := (p_start ->> 'since')::timestamptz;
    v_window.floors := p_start -> 'floors';
    return v_window;
end
$$;

-- Has the catch-up been begun at an offset, and not ended?
create or replace function penstock_data.is_catching_up(p_offset jsonb, p_catch_up jsonb) returns boolean
language sql immutable as $$
    select p_offset ? 'catch_up' and not p_offset -> 'catch_up' ? 'done' and p_offset #> '{catch_up,of}' = p_catch_up -> 'of'
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

-- An offset that has come to a point, or with p_cut only so far into the window before it.  The stamp is the point's.
create or replace function penstock_data.offset_behind(p_start jsonb, p_point jsonb, p_cut jsonb) returns jsonb
language sql immutable as $$
    select case
        when p_cut is null then (p_start - '{snap,next,last,to,id,xid,emptied,timeline,lsn}'::text[]) || p_point
        when p_start ? 'to' then p_start || p_cut
        else (p_start - '{timeline,lsn}'::text[]) || p_cut || jsonb_build_object('to', p_point - '{timeline,lsn}'::text[])
            || jsonb_strip_nulls(jsonb_build_object('timeline', p_point -> 'timeline', 'lsn', p_point -> 'lsn'))
        end
$$;

-- The start of a batch with its topics, or queues (p_list), ready to go on: the window that is open is ended first,
-- with those that it has.  Then one that it does not stand for catches up, if it has anything to; and those that are
-- not read now are parked.
create or replace function penstock_data.ready_to_go_on(
    p_list text, p_start jsonb, p_ids bigint[], p_stream_id bigint, p_may_lose boolean
) returns jsonb
language plpgsql as $$
declare
    v_covered jsonb := penstock_data.covered(p_list, p_start, p_ids, p_stream_id);
    v_parked  jsonb := coalesce(p_start -> 'parked', '{}');
    v_member  record;
    v_begun   jsonb := p_start -> 'catch_up';
begin
    if v_begun ? 'done' or not exists (select from penstock_data.members(p_list) m where m.id = (v_begun ->> 'of')::bigint) then
        v_begun := null;
    end if;
    if v_begun is not null then
        perform penstock_data.check_catch_up(p_list, v_begun, p_stream_id, p_may_lose);
    elsif not p_start ? 'to' then
        for v_member in
            select m.* from penstock_data.members(p_list) m
            where m.id = any (p_ids) and v_covered ->> m.name is distinct from m.id::text order by m.id
        loop
            v_begun := jsonb_build_object('name', v_member.name, 'of', v_member.id,
                'from', penstock_data.catch_up_from(p_start, v_member.name, v_member.topic_id));
            perform penstock_data.check_catch_up(p_list, v_begun, p_stream_id, p_may_lose);
            exit when penstock_data.has_to_catch_up(p_list, p_start - 'catch_up', v_begun);
            v_covered := v_covered || jsonb_build_object(v_member.name, v_member.id);
            v_parked := v_parked - v_member.name;
            v_begun := null;
        end loop;
    end if;
    if v_begun is null and not p_start ? 'to' then
        select v_parked || coalesce(jsonb_object_agg(e.key,
            jsonb_strip_nulls(jsonb_build_object('snap', p_start -> 'snap', 'next', p_start -> 'next', 'last', p_start -> 'last',
                'timeline', p_start -> 'timeline', 'lsn', p_start -> 'lsn', 'emptied', p_start -> 'emptied'))), '{}')
        into v_parked
        from jsonb_each_text(v_covered) e where e.value::bigint <> all (p_ids);
        select coalesce(jsonb_object_agg(e.key, e.value), '{}') into v_covered
        from jsonb_each(v_covered) e where e.value::text::bigint = any (p_ids);
    end if;
    return penstock_data.with_members(p_start, p_list, v_covered, v_parked, v_begun - '{id,xid}'::text[]);
end
$$;

-- Refuse a catch-up whose beginning was lost, or from whose beginning on messages were removed.
create or replace function penstock_data.check_catch_up(p_list text, p_catch_up jsonb, p_stream_id bigint, p_may_lose boolean) returns void
language plpgsql as $$
begin
    perform penstock_data.check_remembered(p_catch_up -> 'from', p_stream_id);
    if p_list = 'topics' and not p_may_lose then
        perform penstock_data.check_kept(array[(p_catch_up ->> 'of')::bigint], p_catch_up -> 'from');
    end if;
end
$$;

-- Is there anything before an offset's point that a topic or queue has to catch up with?
create or replace function penstock_data.has_to_catch_up(p_list text, p_start jsonb, p_catch_up jsonb) returns boolean
language plpgsql stable as $$
declare
    v_ids bigint[] := array[(p_catch_up ->> 'of')::bigint];
begin
    if p_list = 'queues' then
        return exists (
            select from penstock_data.receipt_sizes(v_ids, (p_catch_up #>> '{from,snap}')::pg_snapshot,
                (p_start ->> 'snap')::pg_snapshot, '0', '9223372036854775807', 1));
    end if;
    return exists (select from penstock_data.log_ids(v_ids, penstock_data.catch_up_window(p_start, p_catch_up), 1));
end
$$;

-- An offset with its members, those that it left, and the one that catches up.
create or replace function penstock_data.with_members(p_offset jsonb, p_list text, p_covered jsonb, p_parked jsonb, p_catch_up jsonb)
returns jsonb
language sql immutable as $$
    select (p_offset - '{parked,catch_up}'::text[]) || jsonb_build_object(p_list, p_covered)
        || case when p_parked = '{}' then '{}' else jsonb_build_object('parked', p_parked) end
        || case when p_catch_up is null then '{}' else jsonb_build_object('catch_up', p_catch_up) end
$$;

-- An offset where the catch-up has come to its end.
create or replace function penstock_data.caught_up(p_start jsonb, p_list text) returns jsonb
language sql immutable as $$
    select penstock_data.with_members(p_start, p_list,
        p_start -> p_list || jsonb_build_object(p_start #>> '{catch_up,name}', p_start #> '{catch_up,of}'),
        coalesce(p_start -> 'parked', '{}') - (p_start #>> '{catch_up,name}'),
        (p_start -> 'catch_up') - '{id,xid}'::text[] || '{"done": true}')
$$;
