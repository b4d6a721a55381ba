-- About how many messages a queue has not read yet, and how many of them are delayed.  Up to p_exact it counts them;
-- beyond, it counts the oldest p_exact and the newest tenth of that, and looks at samples of the ids between: so it
-- costs the same with a million.  Needs no lock.
create or replace function penstock_data.unread_estimate(p_queue_id bigint, p_exact int, p_now timestamptz)
returns table (count bigint, delayed bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_low      xid8;        -- all that is unread lies above, but for transactions that were open when the window was
    v_by_flag  boolean;     -- delayed messages are read apart from the others
    v_oldest   record;
    v_newest   record;
    v_span     bigint;      -- ids between those that were counted …
    v_width    bigint;      -- … and how many of them a sample looks at
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    v_position := penstock_data.seen_position(p_queue_id);
    v_by_flag := v_queue.ordering <> 'fifo';
    v_low := case when v_position.last_xid is not null then v_position.last_xid
        when v_position.last_id is not null then pg_snapshot_xmin(v_position.window_from) else pg_snapshot_xmax(v_position.window_to) end;

    select count(*), min(m.id) as low, max(m.id) as high, count(*) filter (where m.deliver_after > p_now) as delayed into v_oldest
    from (
        select m.id, m.deliver_after from penstock_data.messages m
        where m.segment > 0 and m.topic_id = v_queue.topic_id and m.xid >= v_low and not (m.flagged and v_by_flag)
          and penstock_data.is_unread(v_queue, v_position, m)
        order by m.xid, m.id limit p_exact) m;
    count := v_oldest.count;
    delayed := v_oldest.delayed;
    if v_oldest.count = p_exact then
        select count(*), min(m.id) as low, max(m.id) as high, count(*) filter (where m.deliver_after > p_now) as delayed into v_newest
        from (
            select m.id, m.deliver_after from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_queue.topic_id and m.xid >= v_low and not (m.flagged and v_by_flag)
              and m.id > v_oldest.high and penstock_data.is_unread(v_queue, v_position, m)
            order by m.xid desc, m.id desc limit p_exact / 10) m;
        count := count + v_newest.count;
        v_span := v_newest.low - v_oldest.high - 1;
        if v_span > 0 then
            -- Ids are drawn for all topics alike: which share of them is this queue's, in 64 places.
            v_width := least(100, 1 + v_span / 64);
            select count + least(v_span, v_span * sum(s.seen) / (64 * v_width)) into count
            from generate_series(0, 63) i
            cross join lateral (
                select count(*) as seen from penstock_data.messages m
                where m.segment > 0 and m.topic_id = v_queue.topic_id and m.id > v_oldest.high + i * v_span / 64
                  and m.id <= v_oldest.high + i * v_span / 64 + v_width and m.xid >= v_low and not (m.flagged and v_by_flag)
                  and penstock_data.is_unread(v_queue, v_position, m)) s;
        end if;
        delayed := delayed + v_newest.delayed;
    end if;

    -- Those who committed late, and the delayed ones: few.
    select count + count(*), delayed + count(*) filter (where m.deliver_after > p_now) into count, delayed
    from (
        select m.deliver_after from penstock_data.messages m
        where m.segment > 0 and m.topic_id = v_queue.topic_id and not (m.flagged and v_by_flag) and m.xid < v_low
          and m.xid = any (array(select pg_snapshot_xip(v_position.window_to))) and penstock_data.is_unread(v_queue, v_position, m)
        union all
        select m.deliver_after from penstock_data.messages m
        where m.segment > 0 and m.topic_id = v_queue.topic_id and m.flagged and v_by_flag
          and m.xid >= pg_snapshot_xmin(v_position.flagged_from) and penstock_data.is_unread(v_queue, v_position, m)
        limit p_exact) m;
    return next;
end
$$;
