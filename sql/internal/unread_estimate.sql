-- About how many messages a queue has not read yet, and how many of them are delayed.  Up to p_exact it counts them; beyond,
-- it counts the oldest p_exact and the newest tenth of that, and concludes from their ids how many lie between: so it costs
-- the same with a million.  Needs no lock.
create or replace function penstock_data.unread_estimate(p_queue_id bigint, p_exact int, p_now timestamptz)
returns table (count bigint, delayed bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_low      xid8;        -- all that is unread lies above, but for transactions that were open when the window was
    v_by_flag  boolean;     -- delayed messages are read apart from the others
    v_oldest   record;
    v_newest   record;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    select * into v_position from penstock_data.position_of(p_queue_id);
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
        -- Ids are drawn for all topics alike: this topic's share of them, as it was lately and as it was first.
        count := count + v_newest.count + coalesce((v_newest.low - v_oldest.high - 1) * (
            v_oldest.count / (v_oldest.high - v_oldest.low + 1)::float8 + v_newest.count / (v_newest.high - v_newest.low + 1)::float8) / 2, 0)::bigint;
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
