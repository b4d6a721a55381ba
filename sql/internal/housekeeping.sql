-- The steps of penstock.maintain(), each returning how many it dealt with.

-- Take back expired claims of queues that nobody consumes from.
create or replace function penstock_data.take_back_everywhere(p_now timestamptz) returns bigint
language sql as $$
    select coalesce(sum(penstock_data.take_back(q.id, '-infinity', p_now)), 0)
    from penstock_data.queues q
    where exists (select from penstock_data.claims c where c.queue_id = q.id and c.deadline <= p_now)
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
    )
    select (select count(*) from queues) + (select count(*) from readers)
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

-- Unread messages of queues with a retention lapse even when nobody claims, or an abandoned queue would keep the log for
-- ever.  A claim does the same on its way; here it is asked to look without taking anything.
create or replace function penstock_data.lapse_everywhere(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_lapsed   bigint[];
    v_last     record;
    v_count    bigint := 0;
begin
    for v_queue in select * from penstock_data.queues q where q.retention is not null and q.direct loop
        continue when not pg_try_advisory_xact_lock(1346719315, hashtext(v_queue.name));
        select * into v_position from penstock_data.position_of(v_queue.id);
        -- Only a window that is used up is moved on, to a point before which everything is over.
        continue when v_position.last_xid is not null;
        select array_agg(m.id) filter (where m.published_at + v_queue.retention <= p_now) as lapsed,
            bool_and(m.published_at + v_queue.retention <= p_now) as all_over
        into v_last
        from penstock_data.unread_messages(v_queue.id) m;
        continue when v_last.all_over is not true;
        v_lapsed := v_last.lapsed;
        v_position.window_to := penstock_data.snapshot_without_me(pg_current_snapshot());
        v_position.window_from := v_position.window_to;
        continue when exists (
            select from penstock_data.unread_messages(v_queue.id) m where m.id <> all (v_lapsed));
        v_position.flagged_from := v_position.window_to;
        perform penstock_data.append_position(v_position);
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
        select v_queue.id, p_now, s.receipt_segment, 'lapsed', v_lapsed from penstock_data.settings s;
        v_count := v_count + cardinality(v_lapsed);
    end loop;
    return v_count;
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
