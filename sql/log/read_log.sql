-- The next flagged messages of the log for a queue, whatever its backlog: the flagged window is always current.
-- Yields ids in log order and the position behind them.  p_move: move on even if there are none.  Under the queue's
-- lock.
create or replace function penstock_data.read_flagged(
    p_topic_id bigint, p_position penstock_data.positions, p_snapshot pg_snapshot, p_move boolean
) returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    c_chunk  constant int := 10000;
    v_from   pg_snapshot := p_position.flagged_from;
    v_to     pg_snapshot := coalesce(p_position.flagged_to, p_snapshot);
    v_late   xid8[] := penstock_data.late_xids(v_from, v_to);
    v_open   xid8[] := penstock_data.open_xids(v_to);
    v_xid    xid8   := coalesce(p_position.flagged_xid, '0');
    v_id     bigint := coalesce(p_position.flagged_id, 0);
    v_low    xid8   := v_xid;
    v_low_id bigint := v_id;
    v_pick   penstock_data.pick;
    v_count  int;
begin
    if v_low < pg_snapshot_xmax(v_from) then
        v_low := pg_snapshot_xmax(v_from);
        v_low_id := 0;
    end if;

    select array_agg(m.id), count(*), (array_agg(m.xid))[count(*)], (array_agg(m.id))[count(*)]
    into v_pick.message_ids, v_count, v_xid, v_id
    from (
        select * from (
            (select m.*
            from unnest(v_late) as late(xid)
            cross join lateral (
                select m.xid, m.id from penstock_data.messages m
                where m.segment > 0 and m.topic_id = p_topic_id and m.flagged and m.xid <= late.xid
                  and (m.xid, m.id) > (late.xid, case when late.xid = v_xid then v_id else 0 end)
                order by m.xid, m.id limit c_chunk) m
            where late.xid >= v_xid)
            union all
            (select m.xid, m.id from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_topic_id and m.flagged
              and (m.xid, m.id) > (v_low, v_low_id) and m.xid < pg_snapshot_xmax(v_to) and m.xid <> all (v_open)
            order by m.xid, m.id limit c_chunk)
        ) m limit c_chunk
    ) m;

    if v_count = 0 and p_position.flagged_to is null and not p_move then
        null;       -- nothing new: the position stays as it was, and an idle claim writes nothing
    elsif v_count = c_chunk then
        p_position.flagged_to := v_to;
        p_position.flagged_xid := v_xid;
        p_position.flagged_id := v_id;
    else
        p_position.flagged_from := v_to;
        p_position.flagged_to := null;
        p_position.flagged_xid := null;
        p_position.flagged_id := null;
    end if;
    v_pick.position := p_position;
    return v_pick;
end
$$;

-- Queues that are not direct: the next p_limit messages of the window, in the order of their ids (a producer may get
-- its xid early and insert late, so xid order could turn round what producers had put in order).  fifo queues read
-- flagged messages here too, to keep the order of each key.  Under the queue's lock.
create or replace function penstock_data.read_by_id(p_queue penstock_data.queues, p_position penstock_data.positions, p_limit int)
returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_late  xid8[] := penstock_data.late_xids(p_position.window_from, p_position.window_to);
    v_open  xid8[] := penstock_data.open_xids(p_position.window_to);
    v_pick  penstock_data.pick;
begin
    v_pick.message_ids := array(
        select m.id from (
            (select m.id
            from unnest(v_late) as late(xid)
            cross join lateral (
                select m.id from penstock_data.messages m
                where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid <= late.xid and (m.xid, m.id) > (late.xid, p_position.last_id)
                  and (p_queue.ordering = 'fifo' or not m.flagged)
                order by m.xid, m.id limit p_limit) m)
            union all
            (select m.id from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id
              and m.id > greatest(p_position.from_id, p_position.last_id) and m.id <= p_position.to_id
              and m.xid >= pg_snapshot_xmax(p_position.window_from) and m.xid < pg_snapshot_xmax(p_position.window_to)
              and m.xid <> all (v_open)
              and (p_queue.ordering = 'fifo' or not m.flagged)
            order by m.id limit p_limit)
        ) m
        order by m.id limit p_limit);
    p_position.last_id := case when cardinality(v_pick.message_ids) = p_limit then v_pick.message_ids[p_limit] end;
    v_pick.position := p_position;
    return v_pick;
end
$$;

-- Queues that are not direct: go on to the next window when this one is used up.
create or replace function penstock_data.next_window(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
begin
    p_position.window_from := p_position.window_to;
    p_position.window_to := penstock_data.snapshot_without_me(pg_current_snapshot());
    p_position.from_id := coalesce(p_position.next_from_id, 0);
    p_position.to_id := penstock_data.last_message_id();
    p_position.last_id := 0;
    return p_position;
end
$$;

-- Queues that are not direct: there is something in the window just opened, so it is kept; find where the ids of the
-- next one begin.  p_last_id as in bound_window.
create or replace function penstock_data.keep_window(p_position penstock_data.positions, p_last_id bigint)
returns penstock_data.positions
language plpgsql as $$
begin
    select b.p_snapshot, b.p_id into p_position.window_to, p_position.next_from_id
    from penstock_data.bound_window(p_position.window_to, p_last_id, p_position.from_id) b;
    return p_position;
end
$$;
