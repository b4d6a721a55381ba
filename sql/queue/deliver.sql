-- Give messages to one queue alone, even if other queues or readers read its topic.  The messages are stored beside the
-- log (in segment 0) and scheduled.  Returns their ids, in order.  Locks: for a fifo queue its claim lock.
create or replace function penstock_data.deliver(
    p_queue_id bigint, p_payloads jsonb[], p_headers jsonb[], p_keys text[], p_visible_at timestamptz[], p_published_at timestamptz[]
) returns bigint[]
language plpgsql as $$
declare
    v_queue    penstock_data.queues;
    v_now      timestamptz := penstock_data.clock();
    v_ids      bigint[] := array(select nextval('penstock_data.message_id') from generate_subscripts(p_payloads, 1));
    v_position penstock_data.positions;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    -- The xid of long ago: no window will ever hold them.
    insert into penstock_data.messages (xid, id, topic_id, published_at, segment, key, payload, headers)
    select '3', u.id, v_queue.topic_id, coalesce(u.published_at, v_now), 0, u.key, u.payload, u.header
    from unnest(v_ids, p_payloads, p_headers, p_keys, p_published_at) as u(id, payload, header, key, published_at);
    if v_queue.ordering = 'fifo' then
        perform penstock_data.lock_queue(v_queue.name);
        v_now := penstock_data.clock();     -- claims may have come this far while we waited
        select * into v_position from penstock_data.position_of(p_queue_id);
        perform penstock_data.place(v_queue, v_position, array(
            select (u.id, u.key, 0, greatest(u.visible_at, v_now), null, null)::penstock_data.entry
            from unnest(v_ids, p_keys, p_visible_at) with ordinality as u(id, key, visible_at, place) order by u.place), v_now);
    else
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, lane, xid)
        select p_queue_id, u.id, greatest(u.visible_at, v_now), case when v_queue.ordering = 'fair' then u.key end, pg_current_xact_id()
        from unnest(v_ids, p_keys, p_visible_at) as u(id, key, visible_at);
    end if;
    perform penstock_data.wake_queue(p_queue_id, v_ids[1]);
    return v_ids;
end
$$;
