-- The steps of penstock.maintain(), each returning how many it dealt with.

-- Take back expired claims of queues that nobody consumes from.
create or replace function penstock_data.take_back_everywhere(p_now timestamptz) returns bigint
language sql as $$
    select coalesce(sum(penstock_data.take_back(q.id, '-infinity', p_now)), 0)
    from penstock_data.queues q
    where exists (select from penstock_data.claims c where c.queue_id = q.id and c.deadline > '-infinity' and c.deadline <= p_now)
$$;

create or replace function penstock_data.forget_dedupe_keys(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_count bigint;
begin
    delete from penstock_data.dedupe_keys d where d.ctid = any (array(
        select o.ctid from penstock_data.dedupe_keys o where o.until <= p_now for update skip locked));
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Old positions, and positions of queues and readers that are gone.
create or replace function penstock_data.trim_positions() returns bigint
language sql as $$
    with queues as (
        delete from penstock_data.positions p
        where p.seq < (select n.seq from penstock_data.position_of(p.queue_id) n)
           or not exists (select from penstock_data.queues q where q.id = p.queue_id)
        returning 1
    ), readers as (
        delete from penstock_data.reader_positions p
        where p.seq < (select n.seq from penstock_data.reader_position(p.reader_id) n)
           or not exists (select from penstock_data.readers r where r.id = p.reader_id)
        returning 1
    ), streams as (
        delete from penstock_data.stream_positions p
        where p.seq < (select max(n.seq) from penstock_data.stream_positions n where n.stream_id = p.stream_id)
        returning 1
    )
    select (select count(*) from queues) + (select count(*) from readers) + (select count(*) from streams)
$$;

-- Flags of transactions that every queue of the topic has seen.
create or replace function penstock_data.trim_flags() returns bigint
language sql as $$
    with gone as (
        delete from penstock_data.flags f
        where not exists (
            select from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p
            where q.topic_id = f.topic_id and q.ordering <> 'fifo' and not pg_visible_in_snapshot(f.xid, p.flagged_from))
        returning 1
    )
    select count(*) from gone
$$;

-- Lanes with nothing in them for ten minutes.  Not sooner: while a snapshot is held, a fresh row on top keeps a look-up
-- from walking over the dead ones below.
create or replace function penstock_data.trim_lanes(p_now timestamptz) returns bigint
language sql as $$
    with gone as (
        delete from penstock_data.lanes l
        using penstock_data.queues q, lateral penstock_data.position_of(q.id) p
        where q.id = l.queue_id and l.changed_at < p_now - interval '10 minutes' and not l.busy
          and (q.ordering = 'fifo' or l.last_rank < penstock_data.turn_of(p, split_part(l.lane, ':', 1)::int))
        returning 1
    )
    select count(*) from gone
$$;

create or replace function penstock_data.drop_registrations(p_now timestamptz) returns bigint
language sql as $$
    with gone as (delete from penstock_data.waiting w where w.until <= p_now returning 1)
    select count(*) from gone
$$;

-- Messages of queues with a retention lapse even when nobody claims, or an abandoned queue would keep the log for ever.
create or replace function penstock_data.lapse_everywhere(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_queue penstock_data.queues;
    v_count bigint := 0;
begin
    for v_queue in select * from penstock_data.queues q where q.retention is not null order by q.id loop
        continue when not pg_try_advisory_xact_lock(1346719315, hashtext(v_queue.name));
        v_count := v_count + penstock_data.lapse_queue(v_queue, greatest(p_now, penstock_data.clock()));
    end loop;
    return v_count;
end
$$;

-- Is the retention of the first unread message of a direct queue over?  Asked before the unread log is read: nearly always
-- it is not, and the log may be long.
create or replace function penstock_data.head_is_over(p_queue penstock_data.queues, p_position penstock_data.positions, p_now timestamptz)
returns boolean
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_low xid8 := coalesce(p_position.last_xid, pg_snapshot_xmax(p_position.window_to));
begin
    return coalesce((
            select m.published_at + p_queue.retention <= p_now from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid >= v_low and not m.flagged
              and penstock_data.is_unread(p_queue, p_position, m)
            order by m.xid, m.id limit 1), false)
        -- Those who committed late come before it.
        or exists (
            select from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.xid < v_low and not m.flagged
              and m.xid = any (array(select pg_snapshot_xip(p_position.window_to))) and penstock_data.is_unread(p_queue, p_position, m));
end
$$;

-- Let messages of a queue lapse whose retention is over: scheduled ones, and those at the head of its unread log.
-- Returns how many.  Under the queue's lock.
create or replace function penstock_data.lapse_queue(p_queue penstock_data.queues, p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_before   penstock_data.positions;
    v_position penstock_data.positions;
    v_snapshot pg_snapshot := penstock_data.snapshot_without_me(pg_current_snapshot());
    v_unread   bigint[];
    v_parked   bigint[];
begin
    select * into v_before from penstock_data.position_of(p_queue.id);
    v_position := penstock_data.attend(p_queue, v_before, v_snapshot, p_now, 1000, false);
    if p_queue.direct and penstock_data.head_is_over(p_queue, v_before, p_now) then
        if v_position.last_xid is null then
            v_position.window_from := v_position.window_to;
            v_position.window_to := v_snapshot;
        end if;
        with unread as materialized (
            select m.xid, m.id, bool_and(m.published_at + p_queue.retention <= p_now) over (order by m.xid, m.id) as over
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
        select s.message_id
        from penstock_data.scheduled_messages(p_queue.id) s
        join penstock_data.messages m on m.topic_id = p_queue.topic_id and m.id = s.message_id
        where m.published_at + p_queue.retention <= p_now
    ), heads as (
        delete from penstock_data.scheduled s using over o where s.queue_id = p_queue.id and s.message_id = o.message_id
        returning s.message_id, s.lane
    ), behind as (
        delete from penstock_data.backlog b using over o where b.queue_id = p_queue.id and b.message_id = o.message_id
    ), freed as (
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids, lanes)
        select p_queue.id, p_now, s.receipt_segment, 'lapsed', array_agg(h.message_id), array_agg(h.lane)
        from heads h cross join penstock_data.settings s
        where p_queue.ordering = 'fifo'
        group by s.receipt_segment
    )
    select array_agg(o.message_id) into v_parked
    from over o where p_queue.ordering <> 'fifo' or o.message_id not in (select h.message_id from heads h);

    if v_unread is not null or v_parked is not null then
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
        select p_queue.id, p_now, s.receipt_segment, 'lapsed', coalesce(v_unread, '{}') || coalesce(v_parked, '{}')
        from penstock_data.settings s;
    end if;
    if v_position::text <> v_before::text then
        v_position.attend_at := p_now;
        perform penstock_data.append_position(v_position);
    end if;
    return (
        select coalesce(sum(cardinality(r.message_ids)), 0) from penstock_data.receipts r
        where r.queue_id = p_queue.id and r.xid = pg_current_xact_id() and r.outcome = 'lapsed');
end
$$;

-- Refuse publishing while the log is larger than max_log_bytes.  Returns whether it is.
create or replace function penstock_data.watch_size() returns boolean
language plpgsql as $$
declare
    v_full boolean := coalesce((select penstock_data.log_bytes() > c.max_log_bytes from penstock_data.settings c), false);
begin
    update penstock_data.settings c set log_is_full = v_full where c.log_is_full <> v_full;
    return v_full;
end
$$;

create or replace function penstock_data.log_bytes() returns bigint
language sql stable as $$
    select coalesce(sum(pg_total_relation_size(penstock_data.segment_table('messages', s.number))), 0)::bigint
        + pg_total_relation_size('penstock_data.messages_0')
    from penstock_data.segments s where s.kind = 'messages'
$$;
