-- Turn a standard queue into a fair one, whatever it holds.  What a direct queue has read of its window becomes a
-- snapshot that has seen just that, so that no message of the backlog is moved; only the rest of the transaction in
-- whose midst it stands is scheduled at once.  Errors: PS002 it was deleted.  Locks: the queue's claim lock until the
-- transaction ends.
create or replace function penstock_data.make_fair(p_queue_name text) returns void
language plpgsql as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_now      timestamptz := penstock_data.clock();
    v_rest     bigint[];
    v_noted    bigint[];
    v_admitted record;
begin
    perform penstock_data.lock_queue(p_queue_name);
    select * into v_queue from penstock_data.queues q where q.name = p_queue_name for update;
    if v_queue.id is null then
        -- Deleted while this waited for the lock.
        perform penstock_data.fail('PS002', format('queue %L does not exist', p_queue_name));
    end if;
    if v_queue.ordering <> 'standard' then
        return;
    end if;
    select * into v_position from penstock_data.position_of(v_queue.id);
    if v_queue.direct then
        v_position := penstock_data.with_notes(v_queue, v_position);
        if v_position.last_xid is not null then
            v_rest := array(
                select m.id from penstock_data.messages m
                where m.segment > 0 and m.topic_id = v_queue.topic_id and not m.flagged
                  and m.xid = v_position.last_xid and m.id > v_position.last_id
                order by m.id);
            v_position.window_to := penstock_data.snapshot_up_to(v_position.window_from, v_position.window_to, v_position.last_xid);
        end if;
        v_position.window_from := v_position.window_to;
        v_position.last_xid := null;
        v_position.last_id := null;
        v_position.next_from_id := 0;
    end if;
    v_position.turn := 0;
    update penstock_data.queues q set ordering = 'fair' where q.id = v_queue.id returning q.* into v_queue;
    v_noted := penstock_data.noted_ahead(v_queue.id, v_rest);
    v_rest := array(select id from unnest(v_rest) id where id not in (select unnest(v_noted)) order by id);
    delete from penstock_data.claimed_ahead a where a.queue_id = v_queue.id and a.message_id = any (v_noted);
    if v_rest <> '{}' then
        select * into v_admitted from penstock_data.admit(v_queue, v_position, v_rest, v_now);
        v_position := v_admitted.p_position;
    end if;
    perform penstock_data.append_position(v_position);
end
$$;

-- The snapshot that sees what p_from sees, and of what p_to sees in addition the transactions up to p_last.
create or replace function penstock_data.snapshot_up_to(p_from pg_snapshot, p_to pg_snapshot, p_last xid8) returns pg_snapshot
language sql immutable as $$
    select format('%s:%s:%s', coalesce(min(x.xid), s.xmax), s.xmax, string_agg(x.xid::text, ',' order by x.xid))::pg_snapshot
    from (select greatest(pg_snapshot_xmax(p_from)::text::bigint, p_last::text::bigint + 1) as xmax) s
    left join lateral (
        select o.xid::text::bigint as xid from pg_snapshot_xip(p_from) as o(xid)
        where o.xid > p_last or not pg_visible_in_snapshot(o.xid, p_to)
        union
        select o.xid::text::bigint from pg_snapshot_xip(p_to) as o(xid)
        where o.xid >= pg_snapshot_xmax(p_from) and o.xid <= p_last
    ) x on true
    group by s.xmax
$$;
