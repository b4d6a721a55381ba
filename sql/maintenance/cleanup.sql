-- What the steps of housekeeping do.  Those that go over rows deal with p_limit of them at most, leave rows alone that
-- another transaction holds, and return how many they dealt with.  Those of one queue return null when they left it
-- alone.

create or replace function penstock_data.forget_dedupe_keys(p_now timestamptz, p_limit int) returns bigint
language plpgsql as $$
declare
    v_count bigint;
begin
    delete from penstock_data.dedupe_keys d where d.ctid = any (array(
        select o.ctid from penstock_data.dedupe_keys o where o.until <= p_now order by o.until limit p_limit for update skip locked));
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Old positions, and positions of queues and readers that are gone.
create or replace function penstock_data.trim_positions(p_limit int) returns bigint
language sql as $$
    with queues as (
        delete from penstock_data.positions p where p.ctid = any (array(
            select o.ctid from penstock_data.positions o
            where o.seq < (select n.seq from penstock_data.position_of(o.queue_id) n)
               or not exists (select from penstock_data.queues q where q.id = o.queue_id)
            limit p_limit for update of o skip locked))
        returning 1
    ), readers as (
        delete from penstock_data.reader_positions p where p.ctid = any (array(
            select o.ctid from penstock_data.reader_positions o
            where o.seq < (select n.seq from penstock_data.reader_position(o.reader_id) n)
               or not exists (select from penstock_data.readers r where r.id = o.reader_id)
            limit p_limit for update of o skip locked))
        returning 1
    ), streams as (
        delete from penstock_data.stream_positions p where p.ctid = any (array(
            select o.ctid from penstock_data.stream_positions o
            where o.seq < (select max(n.seq) from penstock_data.stream_positions n where n.stream_id = o.stream_id)
            limit p_limit for update of o skip locked))
        returning 1
    )
    select (select count(*) from queues) + (select count(*) from readers) + (select count(*) from streams)
$$;

-- Flags of transactions that every queue of the topic has seen.
create or replace function penstock_data.trim_flags(p_limit int) returns bigint
language sql as $$
    with gone as (
        delete from penstock_data.flags f where f.ctid = any (array(
            select o.ctid from penstock_data.flags o
            where not exists (
                select from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p
                where q.topic_id = o.topic_id and q.ordering <> 'fifo' and not pg_visible_in_snapshot(o.xid, p.flagged_from))
            limit p_limit for update of o skip locked))
        returning 1
    )
    select count(*) from gone
$$;

create or replace function penstock_data.drop_registrations(p_now timestamptz, p_limit int) returns bigint
language sql as $$
    with gone as (
        delete from penstock_data.waiting w where w.ctid = any (array(
            select o.ctid from penstock_data.waiting o where o.until <= p_now limit p_limit for update skip locked))
        returning 1
    )
    select count(*) from gone
$$;

-- Lanes of a queue with nothing in them for ten minutes.  Not sooner: while a snapshot is held, a fresh row on top
-- keeps a look-up from walking over the dead ones below.
create or replace function penstock_data.trim_lanes(p_queue penstock_data.queues, p_now timestamptz, p_limit int) returns bigint
language plpgsql as $$
declare
    v_position penstock_data.positions;
    v_count    bigint;
begin
    if p_queue.ordering = 'standard' then
        return null;
    end if;
    select * into v_position from penstock_data.position_of(p_queue.id);
    delete from penstock_data.lanes l where l.ctid = any (array(
        select o.ctid from penstock_data.lanes o
        where o.queue_id = p_queue.id and o.changed_at < p_now - interval '10 minutes' and not o.busy
          and (p_queue.ordering = 'fifo' or o.last_rank < penstock_data.turn_of(v_position, split_part(o.lane, ':', 1)::int))
        limit p_limit for update skip locked));
    get diagnostics v_count = row_count;
    return nullif(v_count, 0);
end
$$;

-- Delete an exclusive queue that was not kept alive.  Left alone while a claim on it is under way.
create or replace function penstock_data.delete_ended(p_queue penstock_data.queues) returns bigint
language plpgsql as $$
begin
    if not p_queue.exclusive
       or not exists (select from penstock_data.keep_alives k where k.queue_id = p_queue.id and k.until <= penstock_data.clock())
       or not penstock_data.try_lock_queue(p_queue.name) then
        return null;
    end if;
    perform from penstock_data.keep_alives k
    where k.queue_id = p_queue.id and k.until <= penstock_data.clock() for update skip locked;
    if not found then
        return null;
    end if;
    perform penstock_data.drop_queue(p_queue.name);
    return 1;
end
$$;

-- Messages of a queue lapse even without claims, or an abandoned queue would keep the log for ever.  Its claim lock is
-- taken only when a look without it has found something, and not waited for.
create or replace function penstock_data.lapse_idle(p_queue penstock_data.queues, p_now timestamptz) returns bigint
language plpgsql as $$
begin
    if not penstock_data.has_lapsed(p_queue, p_now) or not penstock_data.try_lock_queue(p_queue.name) then
        return null;
    end if;
    select * into p_queue from penstock_data.queues q where q.id = p_queue.id;
    return penstock_data.lapse_queue(p_queue, greatest(p_now, penstock_data.clock()));
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
