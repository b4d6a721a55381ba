-- Messages whose time is over, by their expiry or by the retention of the queue: they lapse instead of being delivered.

-- Is the time of scheduled messages over?  One answer for each, in their order.  A message that the log has lost counts
-- as over.  A requeued dead letter has a time of its own (schema/tables/renewals.sql).  In PL/pgSQL, because its plan
-- is kept.
create or replace function penstock_data.are_over(p_queue penstock_data.queues, p_ids bigint[], p_now timestamptz) returns boolean[]
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
begin
    return array(
        select m.id is null
            or coalesce(least(m.expires_at, m.published_at + p_queue.retention) <= p_now, false)
               and not exists (
                   select from penstock_data.renewals r
                   where r.queue_id = p_queue.id and r.message_id = u.id and r.lapses_at > p_now)
        from unnest(p_ids) with ordinality as u(id, place)
        left join lateral (
            select m.id, m.expires_at, m.published_at from penstock_data.messages m
            where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m on true
        order by u.place);
end
$$;

-- When a message that an operator brings back expires: as long after now as it did after its publication, and not
-- within a minute, so that a consumer can see it.  An expiry a thousand years away stays.
create or replace function penstock_data.renewed_expiry(p_expires_at timestamptz, p_published_at timestamptz, p_now timestamptz)
returns timestamptz
language sql immutable as $$
    select case when p_expires_at > p_now + interval '1000 years' then p_expires_at
        when p_expires_at is not null then p_now + greatest(p_expires_at - p_published_at, interval '1 minute') end
$$;

-- fifo: the first messages that wait in the backlog of these lanes lapse when their time is over, up to the first that
-- lives.  Returns how many.  Under the queue's lock.
create or replace function penstock_data.lapse_in_lanes(p_queue penstock_data.queues, p_lanes text[], p_now timestamptz) returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_lane  text;
    v_next  record;
    v_over  boolean[];
    v_first int;            -- how many of them are over before the first that is not
    v_look  int;
    v_count int := 0;
begin
    foreach v_lane in array p_lanes loop
        v_look := 4;
        loop
            select array_agg(b.message_id) as ids, array_agg(b.place) as places into v_next
            from (
                select b.message_id, b.ctid as place
                from (
                    select l.last_rank from penstock_data.lanes l
                    where l.queue_id = p_queue.id and l.lane = v_lane order by l.seq desc limit 1) l
                cross join lateral (
                    select b.message_id, b.ctid, b.rank from penstock_data.backlog b
                    where b.queue_id = p_queue.id and b.lane = v_lane and b.rank > l.last_rank and not b.held
                    order by b.rank limit v_look) b
                order by b.rank) b;
            exit when v_next.ids is null;
            v_over := penstock_data.are_over(p_queue, v_next.ids, p_now);
            v_first := coalesce(array_position(v_over, false), cardinality(v_over) + 1) - 1;
            exit when v_first = 0;
            delete from penstock_data.backlog b where b.ctid = any (v_next.places[:v_first]);
            insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
            select p_queue.id, p_now, s.receipt_segment, 'lapsed', v_next.ids[:v_first] from penstock_data.settings s;
            v_count := v_count + v_first;
            exit when v_first < v_look;
            v_look := least(2 * v_look, 1000);
        end loop;
    end loop;
    return v_count;
end
$$;

-- Of messages that a claim has found in the schedule, let those lapse whose time is over, and in a fifo queue the next
-- of their lanes as well.  Here and now, so the receipt has no lanes to learn from.  Returns how many.  Under the
-- queue's lock.
create or replace function penstock_data.lapse_found(
    p_queue penstock_data.queues, p_ids bigint[], p_lanes text[], p_over boolean[], p_now timestamptz
) returns int
language plpgsql as $$
declare
    v_lapsed record;
    v_count  int;
begin
    select array_agg(u.id) as ids, array_agg(distinct u.lane) as lanes into v_lapsed
    from unnest(p_ids, p_lanes, p_over) as u(id, lane, over) where u.over;
    insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
    select p_queue.id, p_now, s.receipt_segment, 'lapsed', v_lapsed.ids from penstock_data.settings s;
    v_count := cardinality(v_lapsed.ids);
    if p_queue.ordering = 'fifo' then
        v_count := v_count + penstock_data.lapse_in_lanes(p_queue, v_lapsed.lanes, p_now);
        perform penstock_data.finish_in_lanes(p_queue.id, v_lapsed.ids, v_lapsed.lanes, p_now);
    end if;
    return v_count;
end
$$;

-- May a queue hold a message whose time is over?  Asked by maintain() before it takes the queue's lock.  Looks at the
-- first entries of indexes: what expires first in the schedule, the oldest messages of a queue with a retention, and
-- the first message that the queue has not read.  Locks: none.
create or replace function penstock_data.has_lapsed(p_queue penstock_data.queues, p_now timestamptz) returns boolean
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_oldest   constant int := 100;
    v_position penstock_data.positions;
begin
    if (
        select s.expires_at from penstock_data.scheduled s
        where s.queue_id = p_queue.id and s.expires_at is not null order by s.expires_at limit 1) <= p_now
    or (
        select b.expires_at from penstock_data.backlog b
        where b.queue_id = p_queue.id and b.expires_at is not null and not b.held order by b.expires_at limit 1) <= p_now
    or (select r.lapses_at from penstock_data.renewals r where r.queue_id = p_queue.id order by r.lapses_at limit 1) <= p_now
    or p_queue.retention is not null and true = any (penstock_data.are_over(p_queue, array(
        select s.message_id from penstock_data.scheduled s where s.queue_id = p_queue.id order by s.message_id limit c_oldest), p_now)
        || penstock_data.are_over(p_queue, array(
        select b.message_id from penstock_data.backlog b where b.queue_id = p_queue.id and not b.held
        order by b.message_id limit c_oldest), p_now))
    then
        return true;
    end if;
    v_position := penstock_data.seen_position(p_queue.id);
    return penstock_data.head_is_over(p_queue, v_position, p_now);
end
$$;

-- Is the time of the first unread message of a queue over?  Asked before the unread log is read: nearly always it is
-- not, and the log may be long.  Whether a filter lets that message pass does not matter: else it would be passed over.
create or replace function penstock_data.head_is_over(p_queue penstock_data.queues, p_position penstock_data.positions, p_now timestamptz)
returns boolean
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_look   constant int := 1000;
    v_low    xid8 := coalesce(p_position.last_xid, pg_snapshot_xmax(p_position.window_to));
    v_looked int;
    v_over   boolean;
begin
    p_queue.filter := null;
    p_queue.starts_at := null;
    if p_queue.ordering <> 'fifo' and (
        select least(m.expires_at, m.published_at + p_queue.retention) <= p_now from penstock_data.messages m
        where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid >= pg_snapshot_xmin(p_position.flagged_from) and m.flagged
          and penstock_data.is_unread(p_queue, p_position, m)
        order by m.xid, m.id limit 1)
    then
        return true;
    elsif not p_queue.direct then
        -- The queue has read many of them already when they are flagged.  Behind too many it is taken for granted that
        -- something is over, where a retention makes that likely.
        select count(*)::int, (array_agg(least((m.message).expires_at, (m.message).published_at + p_queue.retention) <= p_now)
            filter (where (p_queue.ordering = 'fifo' or not (m.message).flagged)
                and penstock_data.is_unread(p_queue, p_position, m.message)))[1]
        into v_looked, v_over
        from (
            select m as message from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.id > coalesce(p_position.last_id, p_position.next_from_id, 0)
            order by m.id limit c_look) m;
        return coalesce(v_over, v_looked = c_look and p_queue.retention is not null);
    end if;
    return coalesce((
            select least(m.expires_at, m.published_at + p_queue.retention) <= p_now from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid >= v_low and not m.flagged
              and penstock_data.is_unread(p_queue, p_position, m)
            order by m.xid, m.id limit 1), false)
        -- Those who committed late come before it.  One xid as a range: docs/internals/windows.md, "Two scans".
        or exists (
            select from pg_snapshot_xip(p_position.window_to) as late(xid)
            cross join lateral (
                select least(m.expires_at, m.published_at + p_queue.retention) <= p_now as over from penstock_data.messages m
                where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid <= late.xid and (m.xid, m.id) > (late.xid, 0)
                  and not m.flagged and penstock_data.is_unread(p_queue, p_position, m)
                order by m.xid, m.id limit 1) m
            where late.xid < v_low and m.over);
end
$$;

-- Let messages of a queue lapse whose time is over: scheduled ones, and those at the head of its unread log.
-- Returns how many.  Under the queue's lock.
create or replace function penstock_data.lapse_queue(p_queue penstock_data.queues, p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_before   penstock_data.positions;
    v_position penstock_data.positions;
    v_snapshot pg_snapshot := penstock_data.snapshot_without_me(pg_current_snapshot());
    v_unread   bigint[];
    v_over     record;
begin
    select * into v_before from penstock_data.position_of(p_queue.id);
    v_position := penstock_data.attend(p_queue, v_before, v_snapshot, p_now, 1000, false, null);
    if p_queue.direct and penstock_data.head_is_over(p_queue, v_before, p_now) then
        if v_position.last_xid is null then
            v_position.window_from := v_position.window_to;
            v_position.window_to := v_snapshot;
        end if;
        with unread as materialized (
            select m.xid, m.id,
                bool_and(coalesce(least(m.expires_at, m.published_at + p_queue.retention) <= p_now, false)) over (order by m.xid, m.id) as over
            from penstock_data.unread_messages(p_queue.id) m
            where not m.flagged and pg_visible_in_snapshot(m.xid, v_position.window_to)
            order by m.xid, m.id limit 100000
        ), head as (
            select u.xid, u.id from unread u where u.over order by u.xid, u.id
        )
        select array_agg(h.id), (array_agg(h.xid))[count(*)], (array_agg(h.id))[count(*)]
        into v_unread, v_position.last_xid, v_position.last_id
        from head h;
        if v_unread is null then
            v_position.window_from := v_before.window_from;
            v_position.window_to := v_before.window_to;
            v_position.last_xid := v_before.last_xid;
            v_position.last_id := v_before.last_id;
        end if;
    end if;

    with over as materialized (
        select distinct w.message_id
        from (
            select s.message_id from penstock_data.scheduled s where s.queue_id = p_queue.id and s.expires_at <= p_now
            union all
            select b.message_id from penstock_data.backlog b where b.queue_id = p_queue.id and b.expires_at <= p_now and not b.held
            union all
            select s.message_id
            from penstock_data.scheduled_messages(p_queue.id) s
            join penstock_data.messages m on m.topic_id = p_queue.topic_id and m.id = s.message_id
            where m.published_at + p_queue.retention <= p_now
        ) w
        where not exists (
            select from penstock_data.renewals r where r.queue_id = p_queue.id and r.message_id = w.message_id and r.lapses_at > p_now)
    ), heads as (
        delete from penstock_data.scheduled s using over o where s.queue_id = p_queue.id and s.message_id = o.message_id
        returning s.message_id, s.lane
    ), behind as (
        delete from penstock_data.backlog b using over o where b.queue_id = p_queue.id and b.message_id = o.message_id and not b.held
    )
    select (select array_agg(o.message_id) from over o) as ids,
        (select array_agg(h.message_id) from heads h) as heads, (select array_agg(distinct h.lane) from heads h) as lanes
    into v_over;

    if v_unread is not null or v_over.ids is not null then
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
        select p_queue.id, p_now, s.receipt_segment, 'lapsed', coalesce(v_unread, '{}') || coalesce(v_over.ids, '{}')
        from penstock_data.settings s;
    end if;
    if p_queue.ordering = 'fifo' and v_over.heads is not null then
        perform penstock_data.finish_in_lanes(p_queue.id, v_over.heads, v_over.lanes, p_now);
        perform penstock_data.wake_queue(p_queue.id, v_over.heads[1]);
    end if;
    delete from penstock_data.renewals r where r.queue_id = p_queue.id and r.lapses_at <= p_now;
    if v_position::text <> v_before::text then
        v_position.attend_at := p_now;
        perform penstock_data.append_position(v_position);
    end if;
    return (
        select coalesce(sum(cardinality(r.message_ids)), 0) from penstock_data.receipts r
        where r.queue_id = p_queue.id and r.xid = pg_current_xact_id() and r.outcome = 'lapsed');
end
$$;
